#!/usr/bin/env python3
"""Write tests/golden/chat/cases.jsonl: conversations, and the text, ids and labels that Hugging Face's libraries make of them.

Needs transformers. The tokenizers are those of tests/golden/tokenizers, with the special tokens of the first line of the file.
Each further line is {"tokenizer", "template", "train_on", "row", "text", "ids", "labels"}. Where messages contain the text of
special tokens, the reference encodes the text between the template's own special tokens with special tokens switched off; its
labels are null. tests/unit/chat/test_chat.c reads the file. Usage: tools/make_golden_chat.py LEVIN_SOURCE
"""

import json
import pathlib
import random
import re
import sys

from tokenizers import Tokenizer
from transformers.utils import chat_template_utils as utils

SPECIAL = ["<bos>", "<eos>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
           "<start_of_turn>", "<end_of_turn>", "<|user|>", "<|assistant|>", "<|system|>"]
TOKENIZERS = ["tiny-llama3", "tiny-llama2"]
WORDS = ["return", " it's", " 3.14", "\n\nnew", "  two  spaces", "é", "日本", "😀", "tab\t", "&<>", "foo_bar", "1234", ".", " int x;"]
MARKED = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|im_end|>"
          "{% endgeneration %}{% else %}{{ m.content }}<|im_end|>{% endif %}\n{% endfor %}")


def templates(source):
    """The built-in templates, as C strings."""
    text = (source / "src/text/chat/chat_templates.def").read_text(encoding="utf-8")
    found = {}
    for name, body in re.findall(r"^LVN_CHAT_TEMPLATE\((\w+),(.*?)\)$", text, re.S | re.M):
        strings = re.findall(r'"((?:[^"\\]|\\.)*)"', body)
        found[name] = "".join(strings).replace("\\\\", "\0").replace("\\n", "\n").replace('\\"', '"').replace("\0", "\\")
    found["marked"] = MARKED
    return found


def load(source, name):
    data = json.loads((source / f"tests/golden/tokenizers/{name}/tokenizer.json").read_text(encoding="utf-8"))
    first = max(max(data["model"]["vocab"].values()), max((t["id"] for t in data["added_tokens"]), default=0)) + 1
    for i, text in enumerate(SPECIAL):
        data["added_tokens"].append({"id": first + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                                     "normalized": False, "special": True})
    return Tokenizer.from_str(json.dumps(data))


def render(template, messages, prompt=False):
    compiled = utils._compile_jinja_template(template)
    return utils._render_with_assistant_indices(compiled, messages, None, None, prompt, bos_token="<bos>", eos_token="<eos>")


def talk(r, words):
    text = lambda: r.choice([" ", ""]).join(r.choice(words) for _ in range(r.randrange(1, 6)))  # noqa: E731
    messages = [{"role": "system", "content": text()}] if r.random() < 0.4 else []
    for _ in range(r.randrange(1, 3)):
        messages += [{"role": "user", "content": text()}, {"role": "assistant", "content": text()}]
    return messages


def answers(template, messages, train_on):
    """The characters that are trained."""
    text, found = render(template, messages)
    last = max(i for i, m in enumerate(messages) if m["role"] == "assistant")
    if train_on == "all":
        return [(0, len(text))]
    if "{% generation %}" in template:
        return found[-1:] if train_on == "last_answer" else found
    chosen = [i for i, m in enumerate(messages) if m["role"] == "assistant" and (train_on == "answers" or i == last)]
    return [(len(render(template, messages[:i], True)[0]), len(render(template, messages[:i + 1])[0])) for i in chosen]


def plain(tokenizer, template, messages, train_on):
    text = render(template, messages)[0]
    encoded = tokenizer.encode(text, add_special_tokens=False)
    spans = answers(template, messages, train_on)
    inside = [any(b < end and e > begin for begin, end in spans) for b, e in encoded.offsets]
    return text, encoded.ids, [x if i else -100 for x, i in zip(encoded.ids, inside)]


def special(tokenizer, template, messages):
    """The ids if messages contain the text of special tokens."""
    hidden = json.loads(json.dumps(messages))
    longest_first = sorted(SPECIAL, key=len, reverse=True)
    for m in hidden:
        for s in longest_first:
            m["content"] = m["content"].replace(s, "\ue000" * len(s))
    text, other, ids, at = render(template, messages)[0], render(template, hidden)[0], [], 0
    assert len(text) == len(other)
    for match in re.finditer("|".join(map(re.escape, longest_first)), other):
        tokenizer.encode_special_tokens = True
        ids += tokenizer.encode(text[at:match.start()], add_special_tokens=False).ids if match.start() > at else []
        ids.append(tokenizer.token_to_id(match[0]))
        at = match.end()
    ids += tokenizer.encode(text[at:], add_special_tokens=False).ids if at < len(text) else []
    tokenizer.encode_special_tokens = False
    return text, ids, None


def main():
    source, r, rows = pathlib.Path(sys.argv[1]), random.Random(1), [{"special": SPECIAL, "marked": MARKED}]
    for name in TOKENIZERS:
        tokenizer = load(source, name)
        for key, template in templates(source).items():
            for i in range(5):
                messages = talk(r, WORDS + SPECIAL if i > 2 else WORDS)
                train_on = ["answers", "last_answer", "all"][i % 3]
                made = special(tokenizer, template, messages) if i > 2 else plain(tokenizer, template, messages, train_on)
                rows.append({"tokenizer": name, "template": key, "train_on": train_on, "row": {"messages": messages},
                             "text": made[0], "ids": made[1], "labels": made[2]})
    out = source / "tests/golden/chat/cases.jsonl"
    out.parent.mkdir(exist_ok=True)
    out.write_text("\n".join(json.dumps(x, ensure_ascii=False, separators=(",", ":")) for x in rows) + "\n", encoding="utf-8")


main()
