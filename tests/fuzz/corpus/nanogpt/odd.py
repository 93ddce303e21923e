"""docs
string"""
n_layer, n_head = 3, 3
gradient_accumulation_steps = 5 * 8; batch_size: int = 0xC
x = (1 +
 2)
if True:
    batch_size = 7
block_size = 2**9 // 2 - (-0)
beta2 = .99
eval_only = True
dtype = "float16"
device = 'cuda'
compile = False
a = b = 3
from os import system
exec("x")
lr = -1e-3_0
