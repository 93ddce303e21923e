#!/usr/bin/env python3
"""Compares the ids and labels of `levin tokenize --chat` with those on which TRL trains with assistant_only_loss.

    python3 tools/compare_masks.py FILE... [--tokenizer DIR] [--count N] [--templates NAME,NAME] [--levin PROGRAM]

Needs torch, transformers and trl. FILE is a .jsonl file of rows with `messages`, or one of the wheels chatterbot_corpus and
chitchat_dataset, whose conversations are read. The templates are those in TRL's package with a template for training, or with
{% generation %} themselves. The tokenizer (DIR) gets the special tokens that a template writes, once as the template writes them.
TRL's side is SFTTrainer's own preparation of the data, with a tiny random model.

For each template two comparisons. With TRL's template for training, all ids and labels must be equal. With the model's own
template, labels must be equal for every conversation whose ids are equal, apart from tokens with which the prompt for an answer
ends: some of TRL's templates train these, too ("and prompt"). levin makes several samples of a conversation of which the template
changes earlier messages ("split"), and refuses answers that do not continue the prompt. The exit status is 1 if labels differ.
"""
import argparse
import json
import logging
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import zipfile

CLOCK = (2024, 7, 26)  # levin's, for templates that write the date
ROOT = pathlib.Path(__file__).resolve().parent.parent
SPECIAL = re.compile(r"<\|[^<>|\s{}'\"]+\|>|<｜[^<>｜{}'\"]+｜>|</?(?:start_of_turn|end_of_turn|end_of_utterance|image|bos|eos|s)>|"
                     r"<\|?turn\|?>|<(?:extra_id_|SPECIAL_)\d+>|\[/?INST\]")


def turns(texts):
    """Texts of two speakers, in turns, as messages; an answer comes last."""
    texts = texts[:len(texts) // 2 * 2]
    return [{"role": ("user", "assistant")[i % 2], "content": t} for i, t in enumerate(texts)]


def read(path):
    if not path.endswith(".whl"):
        return [{"messages": json.loads(line)["messages"]} for line in open(path, encoding="utf-8") if line.strip()]
    rows, files = [], zipfile.ZipFile(path)
    for name in sorted(files.namelist()):
        if name.endswith(".yml"):
            import yaml
            for talk in yaml.safe_load(files.read(name))["conversations"]:
                rows.append({"messages": turns([str(t) for t in talk])})
        elif name.endswith("dataset.json"):
            for talk in json.loads(files.read(name)).values():
                rows.append({"messages": turns(["\n".join(m["text"] for m in turn) for turn in talk["messages"]])})
    return rows


def templates():
    """(name, the model's template, TRL's template for training) of each that TRL supports."""
    import trl
    folder = pathlib.Path(trl.__file__).parent / "chat_templates"
    for path in sorted(folder.glob("*.jinja")):
        text, training = path.read_text(encoding="utf-8"), folder / f"{path.stem}_training.jinja"
        if not path.stem.endswith("_training") and (training.exists() or "{%- generation" in text or "{% generation" in text):
            yield path.stem, text, training.read_text(encoding="utf-8") if training.exists() else text


def tokenizer_folder(base, template, to):
    """A copy of the tokenizer with the special tokens of the template."""
    data = json.loads((pathlib.Path(base) / "tokenizer.json").read_text(encoding="utf-8"))
    known = {t["content"] for t in data["added_tokens"]} | set(data["model"]["vocab"])
    next_id = 1 + max([*data["model"]["vocab"].values(), *(t["id"] for t in data["added_tokens"])])
    names = sorted(set(SPECIAL.findall(template)) | {"<bos>", "<eos>"})
    for name in names:
        if name not in known:
            data["added_tokens"].append({"id": next_id, "content": name, "single_word": False, "lstrip": False,
                                         "rstrip": False, "normalized": False, "special": True})
            next_id += 1
    os.makedirs(to)
    (to / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    ends = [n for n in ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<turn|>", "<|end|>", "<|return|>", "<end_of_utterance>",
                        "<|END_OF_TURN_TOKEN|>", "<｜end▁of▁sentence｜>") if n in names]
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<bos>", "eos_token": (ends or ["<eos>"])[0],
              "pad_token": "<eos>", "chat_template": template, "clean_up_tokenization_spaces": False}
    (to / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return next_id


def by_trl(folder, size, rows, out):
    """(ids, labels) of each row; where TRL refuses it, the reason."""
    import datasets
    import transformers
    import trl
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    config = transformers.LlamaConfig(vocab_size=size, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                      num_attention_heads=1, num_key_value_heads=1)
    arguments = trl.SFTConfig(output_dir=str(out), assistant_only_loss=True, max_length=None, use_cpu=True, report_to="none",
                              bf16=False, disable_tqdm=True)

    def prepared(some):
        try:
            data = trl.SFTTrainer(model=transformers.LlamaForCausalLM(config), args=arguments, processing_class=tokenizer,
                                  train_dataset=datasets.Dataset.from_list(some)).train_dataset
            return list(zip(data["input_ids"], data["labels"]))
        except Exception as e:  # noqa: BLE001 - a template may refuse a conversation
            if len(some) == 1:
                return [f"{type(e).__name__}: {e}".split("\n")[0]]
            half = len(some) // 2
            return prepared(some[:half]) + prepared(some[half:])
    first = prepared(rows[:1])  # a template that refuses this conversation, as it wants images, refuses all
    return first * len(rows) if isinstance(first[0], str) else first + prepared(rows[1:])


def by_levin(options, folder, file, template):
    command = [options.levin, "tokenize", f"--chat={file}", f"--tokenizer={folder}", "--json"]
    done = subprocess.run([*command, f"--template={template}"] if template else command, capture_output=True, text=True)
    made = {}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        made.setdefault(row["line"] - 1, []).append(row)
    return made, done.stderr.strip().split("\n")[-1]


def show(tokenizer, ids, labels):
    """The text with what is trained in brackets."""
    text, inside = "", False
    for i, label in zip(ids, labels):
        if (label != -100) != inside:
            inside = not inside
            text += "[" if inside else "]"
        text += tokenizer.decode([i])
    return json.dumps(text + ("]" if inside else ""), ensure_ascii=False)[:700]


def only_prompt(ids, ours, theirs, prompt, tokenizer):
    """Does TRL train the same tokens, and besides, before an answer, tokens of the prompt for it?"""
    extra = []
    for token, mine, other in zip(ids, ours, theirs):
        if mine != other and mine != -100:
            return False
        if mine != other:
            extra.append(token)
        elif extra and (mine == -100 or tokenizer.decode(extra) not in prompt):
            return False
        else:
            extra = []
    return not extra


COLUMNS = ("equal", "and prompt", "other ids", "split", "other labels", "levin refuses", "TRL refuses", "both refuse")


def compare(name, kind, theirs, ours, must_have_ids, tokenizer, shown):
    """Print the number of rows of each kind; true if there are only those that may be."""
    counts = dict.fromkeys(COLUMNS, 0)
    question = [{"role": "user", "content": "x"}]
    try:
        prompt = tokenizer.apply_chat_template(question, tokenize=False, add_generation_prompt=True)
    except Exception:  # noqa: BLE001 - the template may refuse it
        prompt = ""
    for i, trl_row in enumerate(theirs):
        mine = ours.get(i, [{"error": "no output"}])
        if "error" in mine[0] or isinstance(trl_row, str):
            both = "error" in mine[0] and isinstance(trl_row, str)
            key = "both refuse" if both else "levin refuses" if "error" in mine[0] else "TRL refuses"
        elif len(mine) > 1:
            key = "split"
        elif mine[0]["ids"] != trl_row[0]:
            key = "other ids"
        elif mine[0]["labels"] == trl_row[1]:
            key = "equal"
        else:
            fine = not must_have_ids and only_prompt(mine[0]["ids"], mine[0]["labels"], trl_row[1], prompt, tokenizer)
            key = "and prompt" if fine else "other labels"
        counts[key] += 1
        bad = key in ("other labels", "levin refuses", "TRL refuses") or (must_have_ids and key in ("split", "other ids"))
        if bad and counts[key] <= shown:
            print(f"  {name} ({kind}): row {i}: {key}", file=sys.stderr)
            print("    levin:", mine[0].get("error") or show(tokenizer, mine[0]["ids"], mine[0]["labels"]), file=sys.stderr)
            print("    TRL:  ", trl_row if isinstance(trl_row, str) else show(tokenizer, *trl_row), file=sys.stderr)
    print(f"| {name} | {kind} | " + " | ".join(str(v) for v in counts.values()) + " |", flush=True)
    if must_have_ids:
        return counts["equal"] + counts["both refuse"] == len(theirs)
    return not counts["other labels"] and not counts["TRL refuses"]


def pin_clock():
    """Templates that write the date write levin's."""
    import datetime
    import transformers.utils.chat_template_utils as utils

    class Pinned(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(*CLOCK)
    utils.datetime = Pinned


def main():
    parser = argparse.ArgumentParser(description="Compare the labels of conversations in levin and in TRL.")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--tokenizer", default=str(ROOT / "parts/real/qwen3"))
    parser.add_argument("--count", type=int, default=200, help="conversations, chosen at random")
    parser.add_argument("--templates", help="only these")
    parser.add_argument("--shown", type=int, default=1, help="rows that are printed for each difference")
    parser.add_argument("--levin", default=str(ROOT / "build/levin"))
    options = parser.parse_args()
    import transformers
    transformers.logging.set_verbosity_error()
    logging.disable(logging.WARNING)
    import datasets
    datasets.disable_progress_bars()
    pin_clock()
    rows = [r for f in options.files for r in read(f) if r["messages"]]
    random.Random(1).shuffle(rows)
    rows = rows[:options.count]
    wanted, good = options.templates and options.templates.split(","), True
    print("| template | of | " + " | ".join(COLUMNS) + " |\n|" + " --- |" * (2 + len(COLUMNS)))
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        file = place / "rows.jsonl"
        file.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
        for name, text, training in templates():
            if wanted and name not in wanted:
                continue
            folder, template = place / name, place / f"{name}.jinja"
            size = tokenizer_folder(options.tokenizer, text, folder)
            template.write_text(training, encoding="utf-8")
            theirs = by_trl(folder, size, rows, place / "out")
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
            for kind, given in (("training", template), ("model", None)):
                ours, error = by_levin(options, folder, file, given)
                if not ours:
                    print(f"  {name} ({kind}): levin: {error}", file=sys.stderr)
                good &= compare(name, kind, theirs, ours, kind == "training", tokenizer, options.shown)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
