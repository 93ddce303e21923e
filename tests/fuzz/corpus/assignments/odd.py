"""docs
string"""
n_layer, n_head = 3, 3
gradient_accumulation_steps = 5 * 8
batch_size = 0xC
x = (1 +
 2)
if True:
    batch_size = 7
text = '''a
block_size = 3
'''; y = 1
beta2 = .99
eval_only = True
dtype = "float16"
device = 'cuda'
compile = False
seed = None # none
a = b = 3
exec("x")
lr = -1e-3 * 2.5
