#!/usr/bin/env python3
"""make_tokens.py - writes expected token ids for difficult strings, by the reference implementations.

    make_tokens.py [GPT2_ENCODER_JSON GPT2_VOCAB_BPE]     writes tests/golden/tokenizers
    make_tokens.py --only KIND ...                        writes these of it: tiny-llama2, tiny-unigram, tiny-words, trained,
                                                          holes, rustbpe
    make_tokens.py --random N SEED KIND ENCODER BPE OUT   N random cases of a kind, for a wider comparison
    make_tokens.py --wide N SEED OUT [TEXT ...]           N random cases of each of WIDE, trained on the texts: OUT/KIND

gpt2.json has the ids of tiktoken's encode_ordinary with GPT-2's own files. The other tokenizers are small and trained here on
the sources of levin by Hugging Face's tokenizers, with the settings of GPT-2, GPT-NeoX (NFC, runs of spaces as added tokens),
Llama 3 (its split, whole words first) and BERT (lowercase, and cased), so that every branch of the code has expected ids. Those
of SENTENCES are like the files of Llama 2 (BPE with byte fallback), T5 (Unigram, with a precompiled character map of
SentencePiece) and BERT (as a tokenizer.json), with texts and pairs in the post-processor's template. holes.json has byte-level
vocabularies that lack some bytes, and the expected results. WIDE has one tokenizer for every other component that is read.
Needs tiktoken, tokenizers and sentencepiece, and for `rustbpe` the package of this name.
"""
import json
import random
import sys
import unicodedata
from pathlib import Path

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers)

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "tests/golden/tokenizers"
GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
NANOCHAT = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|"
            r"\s*[\r\n]|\s+(?!\S)|\s+")
SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2003\u2009\u2028\u2029\u202f\u205f\u3000"
HARD = [
    "", " ", "  ", "   ", "\n", "\n\n", " \n", "\n ", "\t\t", " a", "a ", "  a", "a  ", "a  b", "a\n\nb", "a \n b",
    "a\r\nb", "\r\n\r\n", "x\r\r\ny", "Hello, world!", "Hello  world", "it's", "it's its' 'tis", "I'VE 'LL 'Re 'sS",
    "don't've", "'s", "'", "''", "'''s", " 's", " ' s", "\u2019s", "'\u017f", "'\u017fx", "'S'T'M'D'RE'VE'LL",
    "12345678901234567890", "1 22 333 4444", "3.14159", "1,000,000", "a1b2c3", "x\u00b2\u00b3\u00bd\u2460\u0663",
    "\u0661\u0662\u0663\u0664", "!!!", "...", "a.b.c", "?!?!", "--help", "a_b_c __init__", "C++", "C#", "#!/bin/sh\n",
    "http://example.org/a?b=c&d=%20", "me@example.org", "$1.50", "\u20ac20", "\u00e9t\u00e9", "e\u0301te\u0301",
    "na\u00efve caf\u00e9", "\u00df \u1e9e", "\ufb01ne", "\u01c5", "\u4f60\u597d\uff0c\u4e16\u754c",
    "\u3053\u3093\u306b\u3061\u306f\u4e16\u754c", "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4",
    "\u1112\u1161\u11ab\u1100\u1173\u11af", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
    "\u05e9\u05dc\u05d5\u05dd", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440", "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5",
    "\U0001f600\U0001f601", "\U0001f469\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "a\U0001f600b",
    "\u200b\u200c\u200d\ufeff", "\ufeffabc", "\x00", "a\x00b", "\x01\x02\x1f", "\x7f\x80", "\x1c\x1d\x1e\x1f a",
    "\ufffd", "\ufffe\uffff", "\U0010ffff", "\U000e0001", "\ue000", "\u0378", "\u2028\u2029", "a\u00a0b",
    "\u00a0\u00a0x", " \u00a0 x", "x \u3000\u3000y", "\u3000", "\u0085x", "a\u0300\u0301\u0302b", "\u0344", "\u212b",
    "\u1e0b\u0323", "q\u0307\u0323", "\u0958", "\u2126\u212a", "\U0001d15e", "\u0f73\u0f75\u0f81", "\uac00\u11a8",
    "<|endoftext|>", "a<|endoftext|>b", "<|endoftext|><|endoftext|>", "<|endoftext", "<|begin_of_text|>x",
    " <|endoftext|> ", "\n<|endoftext|>\n", "<|pad|>", "x<|pad|>y", "  <|pad|>  ", "word<mask>word", "a <mask> b",
    "a" * 47, "a" * 48, "a" * 49, "a" * 50, "a" * 1000, "ab" * 700, "abc" * 333, "the" * 200, " " * 23, " " * 24,
    " " * 25, " " * 100, "x" + " " * 60 + "y", "\n" * 70, "\t" * 33, " \n" * 20, "=" * 80, "-" * 65, "." * 300,
    "0" * 100, "\u4e00" * 60, "\U0001f600" * 20, "\u00e9" * 30, "_" * 31 + "a", "antidisestablishmentarianism",
    "Donaudampfschifffahrtselektrizit\u00e4tenhauptbetriebswerkbauunterbeamtengesellschaft", "SUPERCALIFRAGILISTIC",
    "    def f(x):\n        return x + 1\n\n\n", "{\"a\": [1, 2, {\"b\": null}]}", "\\u0041\\n", "a\\b\\c",
    "<html><body class=\"x\">&nbsp;</body></html>", "int main(void)\r\n{\r\n\treturn 0;\r\n}\r\n",
    "The quick brown fox jumps over the lazy dog.", "THE QUICK BROWN FOX", "tHe QuIcK", "O God, O God!",
    " SolidGoldMagikarp", " rawdownloadcloneembedreportprint", "\u00e2\u0080\u0099", "\u00c3\u0082\u00c3\u0082",
]


def random_text(rng):
    """Some of everything, in runs, since runs are where splitting can go wrong."""
    makers = [
        lambda: chr(rng.randrange(0x20, 0x7f)), lambda: rng.choice(SPACES), lambda: rng.choice("abcdeEtTsS"),
        lambda: rng.choice("0123456789\u0661\u00b2\u2460"), lambda: rng.choice("'\u2019\"`"), lambda: " ",
        lambda: chr(rng.choice([rng.randrange(0x80, 0x800), rng.randrange(0x800, 0xd800), rng.randrange(0xe000, 0x10000),
                                rng.randrange(0x10000, 0x110000)])),
        lambda: rng.choice(["'s", "'ll", "'Re", "'\u017f", "<|endoftext|>", "<|pad|>", "\r\n", "the", " and", "\u0301"]),
        lambda: chr(rng.randrange(0x300, 0x370)), lambda: chr(rng.randrange(0x1100, 0x1200)),
        lambda: chr(rng.randrange(0, 0x20)), lambda: chr(rng.randrange(0xac00, 0xd7a4)),
    ]
    return "".join(make() * (rng.randrange(1, 9) if rng.random() < .2 else 1)
                   for make in rng.choices(makers, k=rng.randrange(1, 40)))


def cases(rng, n):
    return HARD + [random_text(rng) for _ in range(n)]


def alphabet():
    printable = [*range(ord("!"), ord("~") + 1), *range(0xa1, 0xad), *range(0xae, 0x100)]
    rest = [b for b in range(256) if b not in printable]
    return {**{chr(b): b for b in printable}, **{chr(256 + i): b for i, b in enumerate(rest)}}


def gpt2(encoder, bpe):
    """GPT-2's tokenizer, from its two files: ranks are ids."""
    import tiktoken

    table = alphabet()
    ranks = {bytes(table[c] for c in token): i for token, i in json.load(open(encoder, encoding="utf-8")).items()
             if token != "<|endoftext|>"}
    return tiktoken.Encoding("gpt2", pat_str=GPT2, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})


def train(kind):
    t = Tokenizer(models.BPE())
    split = Regex(LLAMA3)
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False) if kind != "llama3" else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(split, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    if kind == "neox":
        t.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(vocab_size=500, show_progress=False, special_tokens=["<|endoftext|>"],
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    files = sorted((ROOT / "src").rglob("*.c"))[:60] + [ROOT / "README.md"]
    t.train_from_iterator([f.read_text() for f in files] + ["\u00e9t\u00e9 \u4f60\u597d \U0001f600 don't we'll 2024"] * 50,
                          trainer)
    if kind == "neox":
        t.add_special_tokens([AddedToken("<|pad|>", normalized=False)])
        t.add_tokens([AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)])
    if kind == "llama3":
        t.add_special_tokens([AddedToken("<|begin_of_text|>", normalized=False), AddedToken("<|pad|>", rstrip=True),
                              AddedToken("<mask>", lstrip=True, single_word=True)])
    return t


def train_bert(folder, lower):
    """WordPiece with BERT's cleaning; vocab.txt and tokenizer_config.json."""
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=lower)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=600, show_progress=False, limit_alphabet=160,
                                        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    more = "\u00e9t\u00e9 na\u00efve \u4f60\u597d \uc548\ub155\ud558\uc138\uc694 \u041f\u0440\u0438\u0432\u0435\u0442 it's 2024 \u0130"
    t.train_from_iterator([p.read_text() for p in sorted((ROOT / "docs").glob("*.md"))] + [more] * 200, trainer)
    folder.mkdir(exist_ok=True)
    t.model.save(str(folder))
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lower}) + "\n")
    t = Tokenizer(models.WordPiece.from_file(str(folder / "vocab.txt"), unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=lower)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return t


BYTES = [f"<0x{b:02X}>" for b in range(256)]
MARK = "\u2581"


def own_texts():
    return [p.read_text() for p in sorted((ROOT / "docs").glob("*.md"))] + [
        "\u00e9t\u00e9 na\u00efve \u4f60\u597d \uc548\ub155\ud558\uc138\uc694 \u041f\u0440\u0438\u0432\u0435\u0442 don't 2024 \ufb01n"] * 100


def template(before, behind):
    """BOS and EOS, or [CLS] and [SEP], as TemplateProcessing has them; each a token and its id."""
    a, b = [t for t, _ in before], [t for t, _ in behind]
    return processors.TemplateProcessing(
        single=[*a, "$A", *b], pair=[*a, "$A", *b, *(f"{t}:1" for t in a if not b), "$B:1", *(f"{t}:1" for t in b)],
        special_tokens=[*before, *behind])


def fallback_bpe(texts, size, normalizer, pre, decoder=None, unknown="<unk>"):
    """BPE of characters whose rest is bytes: trained on words, then with bytes put in, as conversions have it."""
    t = Tokenizer(models.BPE(unk_token=unknown, fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, show_progress=False, limit_alphabet=100,
                                                     special_tokens=["<unk>", "<s>", "</s>", *BYTES]))
    data = json.loads(t.to_str())
    data["added_tokens"] = data["added_tokens"][:3]
    data["pre_tokenizer"] = None
    t = Tokenizer.from_str(json.dumps(data))
    if pre:
        t.pre_tokenizer = pre
    t.decoder = decoder or decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(),
                                              decoders.Strip(" ", 1, 0)])
    t.post_processor = template([("<s>", 1)], [])
    return t


def llama2(texts, size):
    return fallback_bpe(texts, size, normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)]), None)


def llama2_first(texts, size):
    return fallback_bpe(texts, size, None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False))


def gemma(texts, size):
    return fallback_bpe(texts, size, normalizers.Replace(" ", MARK), pre_tokenizers.Split(" ", "merged_with_previous"),
                        decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]))


def charsmap(rules):
    """The map of characters that SentencePiece makes of rules: its name, or lines of code points."""
    import io
    import tempfile

    import sentencepiece

    sys.path.insert(0, str(Path(sentencepiece.__file__).parent))
    from sentencepiece import sentencepiece_model_pb2 as proto

    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        out, named = io.BytesIO(), "\t" not in rules
        file.write("" if named else rules)
        file.flush()
        how = {"normalization_rule_name": rules} if named else {"normalization_rule_tsv": file.name}
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a b c", "ab"] * 20), model_writer=out, vocab_size=9,
                                                 hard_vocab_limit=False, minloglevel=2, **how)
    model = proto.ModelProto()
    model.ParseFromString(out.getvalue())
    return model.normalizer_spec.precompiled_charsmap


def few_rules():
    """Some of what nmt_nfkc does, so that the map is small."""
    texts = ["\ufb01", "e\u0301", "a\u0300", "\u1112\u1161\u11ab", "\u2460", "\u212b", "\u00bd", "\u3000", "\u00a0", "\u2026",
             "\t", "\n", "\r", "\uff01", "\uff21", "x\u0301", "\u00e5", "\u0133"]
    rows = [(t, " " if t.isspace() else unicodedata.normalize("NFKC", t)) for t in texts] + [("\u200b", ""), ("\x00", "")]
    line = lambda t: " ".join(f"{ord(c):X}" for c in t)
    return "".join(f"{line(a)}\t{line(b)}\n" for a, b in rows if a != b and a != "\0")


def unigram(texts, size, rules=None, pre=None, byte_fallback=False):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap(rules or few_rules())),
                                         normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre or pre_tokenizers.Metaspace(prepend_scheme="always")
    t.decoder = decoders.Metaspace(prepend_scheme="always")
    special = ["<pad>", "</s>", "<unk>", "<mask>"] + (BYTES if byte_fallback else [])
    t.train_from_iterator(texts, trainers.UnigramTrainer(vocab_size=size, show_progress=False, special_tokens=special,
                                                         unk_token="<unk>"))
    data = json.loads(t.to_str())
    data["added_tokens"] = data["added_tokens"][:4]
    data["model"]["byte_fallback"] = byte_fallback
    t = Tokenizer.from_str(json.dumps(data))
    t.post_processor = template([], [("</s>", 1)])
    return t


def xlmr(texts, size):
    t = unigram(texts, size, "nmt_nfkc", pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                                                 pre_tokenizers.Metaspace(prepend_scheme="always")]))
    t.post_processor = processors.RobertaProcessing(("</s>", 1), ("<pad>", 0))
    return t


def words(texts, size, normalizer=None, pre=None, **how):
    """WordPiece as a tokenizer.json."""
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizer or normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre or pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=size, show_progress=False, limit_alphabet=160,
                                                           special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return t


def bytes_bpe(texts, size, pre, normalizer=None):
    t = Tokenizer(models.BPE())
    t.normalizer = normalizer or normalizers.Sequence([])
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=["<|endoftext|>"],
                                                     initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def split(expression, behavior="isolated", invert=False):
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(e), behavior, invert) for e in expression] + [last])


def unknown_bpe(texts, size, fuse):
    t = Tokenizer(models.BPE(unk_token="[UNK]", fuse_unk=fuse))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, show_progress=False, limit_alphabet=60,
                                                     special_tokens=["[UNK]"]))
    return t


GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
            r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"""
            r"""\s*[\r\n]+|\s+(?!\S)|\s+"""]
BLOOM = [" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"]
WIDE = {
    "llama2": llama2,
    "llama2-first": llama2_first,
    "gemma": gemma,
    "t5": lambda texts, size: unigram(texts, size, "nmt_nfkc"),
    "xlmr": xlmr,
    "unigram-bytes": lambda texts, size: unigram(texts, size + 256, "nfkc", byte_fallback=True),
    "words": words,
    "words-cased": lambda texts, size: words(texts, size, normalizers.BertNormalizer(lowercase=False)),
    "words-nfkc": lambda texts, size: words(texts, size, normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip()]), pre_tokenizers.Whitespace()),
    "words-nfkd": lambda texts, size: words(texts, size, normalizers.Sequence(
        [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Nmt()]), pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_previous"),
             pre_tokenizers.Digits(individual_digits=False)])),
    "words-raw": lambda texts, size: words(texts, size, normalizers.BertNormalizer(
        clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=True)),
    "starcoder": lambda texts, size: bytes_bpe(texts, size, pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])),
    "prefixed": lambda texts, size: bytes_bpe(texts, size, pre_tokenizers.Sequence(
        [pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=True)]), normalizers.NFKC()),
    "gpt4o": lambda texts, size: bytes_bpe(texts, size, split([GPT4O])),
    "deepseek": lambda texts, size: bytes_bpe(texts, size, split(DEEPSEEK)),
    "bloom": lambda texts, size: bytes_bpe(texts, size, split(BLOOM)),
    "gpt4": lambda texts, size: bytes_bpe(texts, size, split(
        [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"])),
    "odd": lambda texts, size: bytes_bpe(texts, size, split(
        [r"(?:ab|a)b?|\w{2,4}?\d|(?i:the|st)(?=\s)|^.|\W\S"],
        "merged_with_next")),
    "unknown": lambda texts, size: unknown_bpe(texts, size, False),
    "unknown-fused": lambda texts, size: unknown_bpe(texts, size, True),
}
SENTENCES = {"tiny-llama2": (llama2, 600), "tiny-unigram": (unigram, 300), "tiny-words": (words, 400)}


def wide(n, seed, out, paths):
    texts = [line for p in paths for line in Path(p).read_text().splitlines()[:20000]] or own_texts()
    out.mkdir(parents=True, exist_ok=True)
    for kind in WIDE:
        hf = WIDE[kind](texts, 3000)
        (out / kind).mkdir(exist_ok=True)
        hf.save(str(out / kind / "tokenizer.json"))
        write_sentences(out / f"{kind}.json", kind, hf, cases(random.Random(seed), n))
        print(kind, hf.get_vocab_size(), flush=True)


def write_sentences(path, name, hf, texts):
    """Ids, the text that they give back, and some texts and pairs in their frames."""
    import tokenizers

    rows = []
    for text in texts:
        ids = hf.encode(text, add_special_tokens=False).ids
        rows.append(json.dumps([text, ids, hf.decode(ids, skip_special_tokens=False)], separators=(",", ":")))
    frames = []
    for a, b in [("Hello", None), ("a b", "c"), ("", "x"), ("one two", "three")]:
        made = hf.encode(a, b) if b is not None else hf.encode(a)
        frames.append(json.dumps([a, b, made.ids, made.type_ids], separators=(",", ":")))
    path.write_text(f'{{"made_by": "tokenizers {tokenizers.__version__}", "tokenizer": "{name}", "frames": [\n' +
                    ",\n".join(frames) + '\n], "cases": [\n' + ",\n".join(rows) + "\n]}\n")


def sentences(names):
    for name in names:
        if name in OTHERS:
            OTHERS[name]()
            continue
        make, size = SENTENCES[name]
        hf, folder = make(own_texts(), size), OUT / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text(json.dumps(json.loads(hf.to_str()), ensure_ascii=False, indent=None) + "\n")
        write_sentences(OUT / f"{name}.json", name, Tokenizer.from_file(str(folder / "tokenizer.json")),
                        cases(random.Random(1337), 100))


def rustbpe_tokens():
    """The tokens of rustbpe (0.1) with nanochat's pattern on the same text, in the order of their ids after the bytes, as hex."""
    import rustbpe
    t = rustbpe.Tokenizer()
    with open(OUT / "trained/text.txt", encoding="utf-8", newline="") as f:
        text = f.read()
    t.train_from_iterator(iter([text]), 700, pattern=NANOCHAT)
    tokens = [bytes(token).hex() for token, _ in sorted(t.get_mergeable_ranks(), key=lambda pair: pair[1])]
    (OUT / "trained/rustbpe.json").write_text(json.dumps({"pattern": NANOCHAT, "tokens": tokens[256:],
                                                          "ids": len(t.encode(text))}) + "\n")


def holes():
    """Byte-level BPE without tokens for some bytes: dropped, unknown, unknown in runs, or as bytes of their letters."""
    import tokenizers

    letters = {byte: letter for letter, byte in alphabet().items()}
    there = [letters[b] for b in b"abcdeh st.\n\xc3\xa9\xf0\x9f"]
    merges = [("a", "b"), ("\u0120", "t"), ("\u0120t", "h"), ("d", "e"), (letters[0xc3], letters[0xa9]), ("ab", "c")]
    fallback = [f"<0x{b:02X}>" for b in sorted({b for c in letters.values() for b in c.encode()}) if b != 0x78]
    kinds = {"dropped": {}, "unknown": {"unk_token": "<unk>"}, "fused": {"unk_token": "<unk>", "fuse_unk": True},
             "whole": {"unk_token": "<unk>", "ignore_merges": True}, "bytes": {"byte_fallback": True},
             "bytes or unknown": {"byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}}
    rng = random.Random(5)
    parts = ["a", "b", "c", "ab", "d", "e", "x", "y", "xx", " t", " th", "\u00e9", "\u00e8", "\U0001f600", "\x04", "\n", ".", "<unk>"]
    texts = ["", "x", "axb", "a\x04b", "xyx", "\x04\x04", " tx h", "d\x1fe d", "\u00e8\u00e9", "\U0001f600!"]
    texts += ["".join(rng.choices(parts, k=rng.randrange(1, 12))) for _ in range(30)]
    rows = []
    for name, how in kinds.items():
        tokens = ["<unk>", *there, *(a + b for a, b in merges), "axb", *fallback]
        t = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges, **how))
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        t.decoder = decoders.ByteLevel()
        cases = []
        for text in texts:
            ids = t.encode(text, add_special_tokens=False).ids
            cases.append([text, ids, t.decode(ids, skip_special_tokens=False)])
        rows.append(json.dumps({"name": name, "tokenizer": json.loads(t.to_str()), "cases": cases}, separators=(",", ":")))
    (OUT / "holes.json").write_text(f'{{"made_by": "tokenizers {tokenizers.__version__}", "kinds": [\n' + ",\n".join(rows) + "\n]}\n")


def made_up_text(rng):
    """Words of syllables, some much more frequent than others, in lines: Latin, Hangul, numbers, marks."""
    parts = [a + b for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "an", "er", "is")]
    korean = [chr(0xac00 + 588 * a + 28 * b + c) for a in (0, 2, 6, 9, 11, 12, 18) for b in (0, 4, 8, 20) for c in (0, 4, 8)]
    words = ["".join(rng.choices(rng.choice([parts, parts, korean]), k=rng.randrange(1, 5))) for _ in range(900)]
    words += [w.capitalize() for w in words[:100]] + [str(rng.randrange(3000)) for _ in range(60)] + ["don't", "it's", "---"]
    weights = [1 / (i + 1) for i in range(len(words))]
    rng.shuffle(words)
    lines = (" ".join(rng.choices(words, weights, k=rng.randrange(3, 14))) + rng.choice([".", "!", ",", "..", "", " \t"])
             for _ in range(700))
    return "\n".join(lines) + "\n"


def trained():
    """What Hugging Face's trainers make of a text: the merges of BPE, and how many tokens WordPiece takes for the text."""
    import tokenizers

    folder = OUT / "trained"
    folder.mkdir(parents=True, exist_ok=True)
    text = made_up_text(random.Random(7))
    (folder / "text.txt").write_text(text)
    lines = text.splitlines(keepends=True)
    bpe = bytes_bpe(lines, 900, pre_tokenizers.ByteLevel(add_prefix_space=False))
    wordpiece = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    wordpiece.normalizer = normalizers.BertNormalizer(lowercase=False)
    wordpiece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    wordpiece.train_from_iterator(lines, trainers.WordPieceTrainer(
        vocab_size=600, show_progress=False, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    data = {"made_by": f"tokenizers {tokenizers.__version__}", "bpe_size": 900, "wordpiece_size": 600,
            "wordpiece_ids": len(wordpiece.encode(text, add_special_tokens=False).ids),
            "merges": json.loads(bpe.to_str())["model"]["merges"]}
    (folder / "expected.json").write_text(json.dumps(data, ensure_ascii=False) + "\n")


def write_cases(path, name, texts, encode, note):
    rows = [json.dumps([text, encode(text)], separators=(",", ":")) for text in texts]
    path.write_text(f'{{"made_by": "{note}", "tokenizer": "{name}", "cases": [\n' + ",\n".join(rows) + "\n]}\n")


OTHERS = {"trained": trained, "holes": holes, "rustbpe": rustbpe_tokens}


def main():
    if sys.argv[1:2] == ["--random"]:
        n, seed, kind, encoder, bpe, out = sys.argv[2:]
        texts = cases(random.Random(int(seed)), int(n))
        if kind == "gpt2":
            encode = gpt2(encoder, bpe).encode_ordinary
        elif "bert" in kind:
            hf = Tokenizer(models.WordPiece.from_file(str(OUT / kind / "vocab.txt"), unk_token="[UNK]"))
            hf.normalizer = normalizers.BertNormalizer(lowercase=kind == "tiny-bert")
            hf.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
            encode = lambda s: hf.encode(s, add_special_tokens=False).ids
        else:
            hf = Tokenizer.from_file(str(OUT / kind / "tokenizer.json"))
            encode = lambda s: hf.encode(s, add_special_tokens=False).ids
        write_cases(Path(out), kind, texts, encode, "random")
        return 0
    if sys.argv[1:2] == ["--wide"]:
        wide(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), sys.argv[5:])
        return 0
    if sys.argv[1:2] == ["--only"]:
        sentences(sys.argv[2:])
        return 0
    import tokenizers
    OUT.mkdir(parents=True, exist_ok=True)
    texts = cases(random.Random(1337), 300)
    for kind in ("gpt2", "neox", "llama3"):
        hf, folder = train(kind), OUT / f"tiny-{kind}"
        folder.mkdir(exist_ok=True)
        if kind == "gpt2":
            hf.model.save(str(folder))
            hf = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
            hf.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        else:
            data = json.loads(hf.to_str())
            data["model"]["ignore_merges"] = kind == "llama3"
            if kind == "neox":  # as older files have it
                data["model"]["merges"] = [" ".join(m) for m in data["model"]["merges"]]
            (folder / "tokenizer.json").write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n")
            hf = Tokenizer.from_file(str(folder / "tokenizer.json"))
        write_cases(OUT / f"tiny-{kind}.json", f"tiny-{kind}", texts, lambda s: hf.encode(s, add_special_tokens=False).ids,
                    f"tokenizers {tokenizers.__version__}")
    for kind in ("bert", "bert-cased"):
        hf = train_bert(OUT / f"tiny-{kind}", kind == "bert")
        write_cases(OUT / f"tiny-{kind}.json", f"tiny-{kind}", texts + ["a" * 101, "ab" * 50 + "c", "a" * 100 + " x"],
                    lambda s: hf.encode(s, add_special_tokens=False).ids, f"tokenizers {tokenizers.__version__}")
    if len(sys.argv) == 3:
        import tiktoken

        write_cases(OUT / "gpt2.json", "gpt2", texts, gpt2(*sys.argv[1:]).encode_ordinary,
                    f"tiktoken {tiktoken.__version__}")
    sentences([*SENTENCES, "trained", "holes"])
    print(f"{len(texts)} cases; Python's Unicode is {unicodedata.unidata_version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
