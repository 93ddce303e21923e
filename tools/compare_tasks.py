#!/usr/bin/env python3
"""Compares `levin evaluate --tasks` with lm-evaluation-harness, and with nanochat's core_eval.py, item by item.

    python3 tools/compare_tasks.py MODEL --text FILE... [--count N] [--core-eval FILE] [--levin PROGRAM] [--dtype bfloat16]
                                   [--fewshot N] [--core-shots N] [--only-core] [--batch-size N] [--folder DIR] [--rounds N] [--forms NAME...]

Needs torch, transformers and lm-eval. MODEL is a model directory of Hugging Face. Tasks in the forms of hellaswag, arc, piqa,
winogrande, lambada and wikitext are made from the texts, N items each, and with --core-eval (the path of nanochat's
nanochat/core_eval.py) a bundle in the form of CORE. Choices, whether items are correct, and metrics must be equal, except where
two answers are closer than rounding; log-likelihoods may differ by rounding. The times are those of whole evaluations without the
start of Python, in turns; CPU is of all threads, for machines that others use, too. The exit status is 1 if something differs.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLOSE = 2e-3  # nats; answers that are closer than this may be chosen differently

YAML = {
    "hellaswag": """
process_docs: !function utils.process_docs
output_type: multiple_choice
doc_to_text: "{{query}}"
doc_to_target: "{{label}}"
doc_to_choice: "choices"
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}, {metric: acc_norm, aggregation: mean, higher_is_better: true}]
""",
    "arc": """
output_type: multiple_choice
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: "{{choices.label.index(answerKey)}}"
doc_to_choice: "{{choices.text}}"
should_decontaminate: true
doc_to_decontamination_query: "Question: {{question}}\\nAnswer:"
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}, {metric: acc_norm, aggregation: mean, higher_is_better: true}]
""",
    "piqa": """
output_type: multiple_choice
doc_to_text: "Question: {{goal}}\\nAnswer:"
doc_to_target: label
doc_to_choice: "{{[sol1, sol2]}}"
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}, {metric: acc_norm, aggregation: mean, higher_is_better: true}]
""",
    "winogrande": """
output_type: multiple_choice
doc_to_text: !function preprocess_winogrande.doc_to_text
doc_to_target: !function preprocess_winogrande.doc_to_target
doc_to_choice: !function preprocess_winogrande.doc_to_choice
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
""",
    "lambada": """
output_type: loglikelihood
doc_to_text: "{{text.split(' ')[:-1]|join(' ')}}"
doc_to_target: "{{' '+text.split(' ')[-1]}}"
metric_list: [{metric: perplexity, aggregation: perplexity, higher_is_better: false}, {metric: acc, aggregation: mean, higher_is_better: true}]
""",
    "wikitext": """
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{page}}"
""",
}


def passages(texts):
    """Paragraphs as lists of words."""
    found = []
    for path in texts:
        text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
        for part in re.split(r"\n\s*\n", text):
            words = part.split()
            if len(words) >= 24 and sum(w.isascii() for w in words) > 0.9 * len(words):
                found.append(words)
    return found


def documents(found, name, n, rng):
    """n items of a task, each of a passage."""
    rows = []
    for words in rng.sample(found, min(n, len(found))):
        at = rng.randrange(8, min(len(words) - 10, 70))
        context, ending = " ".join(words[:at]), " ".join(words[at:at + rng.randrange(3, 10)])
        others = [" ".join(w[k:k + rng.randrange(3, 10)]) for w in rng.sample(found, 4) for k in [rng.randrange(len(w) - 3)]]
        if name == "hellaswag":
            gold = rng.randrange(4)
            endings = others[:3]
            endings.insert(gold, ending + (" [title] Next [step]  done" if rng.random() < 0.2 else ""))
            half = context.find(" ", len(context) // 2)
            rows.append({"activity_label": "Reading", "ctx_a": context[:half], "ctx_b": context[half + 1:], "endings": endings, "label": str(gold)})
        elif name == "arc":
            n_choices = rng.choice([3, 4, 4, 4, 5])
            gold = rng.randrange(n_choices)
            texts = others[:n_choices - 1]
            texts.insert(gold, ending)
            labels = list("ABCDE" if rng.random() < 0.8 else "12345")[:n_choices]
            rows.append({"id": str(len(rows)), "question": context, "choices": {"text": texts, "label": labels}, "answerKey": labels[gold]})
        elif name == "piqa":
            gold = rng.randrange(2)
            pair = [others[0]]
            pair.insert(gold, ending)
            rows.append({"goal": context, "sol1": pair[0], "sol2": pair[1], "label": gold})
        elif name == "winogrande":
            sentence = context.replace("_", "-") + " _ " + ending.replace("_", "-")
            gold = rng.randrange(2)
            options = [rng.choice([w for w in rng.choice(found) if w != words[at]])]
            options.insert(gold, words[at])
            rows.append({"sentence": sentence, "option1": options[0], "option2": options[1], "answer": str(gold + 1)})
        elif name == "lambada":
            rows.append({"text": context + " " + words[at]})
        else:
            rows.append({"page": "\n".join(" ".join(w) for w in rng.sample(found, 3))})
    return rows


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")


def make_tasks(folder, found, count, fewshot):
    import lm_eval
    tasks = pathlib.Path(lm_eval.__file__).parent / "tasks"
    (folder / "utils.py").write_text((tasks / "hellaswag/utils.py").read_text())
    (folder / "preprocess_winogrande.py").write_text((tasks / "winogrande/preprocess_winogrande.py").read_text())
    for name, yaml in YAML.items():
        for split, n in (("test", count if name != "wikitext" else max(count // 10, 2)), ("train", 30)):
            write_lines(folder / f"{name}-{split}.jsonl", documents(found, name, n, random.Random(f"{name} {split}")))
        shots = fewshot if name in ("arc", "piqa", "winogrande", "lambada") else 0
        (folder / f"{name}.yaml").write_text(
            f"task: {name}_local\ndataset_path: json\ndataset_kwargs: {{data_files: {{train: '{folder}/{name}-train.jsonl', test: "
            f"'{folder}/{name}-test.jsonl'}}}}\ntraining_split: train\ntest_split: test\nnum_fewshot: {shots}\n"
            + ("fewshot_split: test\n" if name == "piqa" else "") + yaml)


def make_bundle(folder, found, count, most_shots):
    rng, tasks = random.Random(7), []
    data = folder / "eval_data"
    for name, kind, shots in (("choice", "multiple_choice", 0), ("choice_shots", "multiple_choice", most_shots), ("schema", "schema", 0), ("words", "language_modeling", 3)):
        rows = []
        for d in documents(found, "arc" if kind == "multiple_choice" else "winogrande" if kind == "schema" else "lambada", count, rng):
            if kind == "multiple_choice":
                rows.append({"query": d["question"], "choices": d["choices"]["text"], "gold": d["choices"]["label"].index(d["answerKey"])})
            elif kind == "schema":
                before, after = d["sentence"].split(" _ ", 1)
                rows.append({"context_options": [f"{before} {d['option1']}", f"{before} {d['option2']}"], "continuation": after, "gold": int(d["answer"]) - 1})
            else:
                context, word = d["text"].rsplit(" ", 1)
                rows.append({"context": context + (" " if rng.random() < 0.3 else ""), "continuation": word})
        write_lines(data / f"{name}.jsonl", rows)
        tasks.append(f"-\n  label: {name}\n  dataset_uri: {name}.jsonl\n  num_fewshot: [{shots}]\n  icl_task_type: {kind}\n"
                     + ('  continuation_delimiter: "\\nAnswer: "\n' if name == "choice_shots" else ""))
    (folder / "core.yaml").write_text("icl_tasks:\n" + "".join(tasks))
    (folder / "eval_meta_data.csv").write_text("Eval Task,Task Category,Random baseline,Description\n"
                                               'choice,reading,25,"one, two"\nchoice_shots,reading,25.5,x\nschema,reading,50,x\nwords,reading,0,x\n')


def run_levin(args, tasks, items):
    command = [args.levin, "evaluate", args.model, "--json", f"--items={items}", *[f"--tasks={t}" for t in tasks]]
    if args.dtype == "bfloat16":
        command.append("--trainer.precision=bf16-true")
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if out.returncode:
        sys.exit(f"levin failed: {out.stdout.decode()}")
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = {}
    for line in items.read_text().splitlines():
        row = json.loads(line)
        found.setdefault(row["task"], []).append(row)
    return {t["task"]: t for t in json.loads(out.stdout)["tasks"]}, found, (seconds, cpu)


class Report:
    failed = False

    def line(self, text, bad=False):
        self.failed |= bad
        print(("DIFFERENT  " if bad else "") + text, flush=True)

    def times(self, name, levin, other):
        self.line(f"time: levin {levin[0]:.1f} s, {name} {other[0]:.1f} s: {other[0] / levin[0]:.2f}; "
                  f"CPU: {levin[1]:.1f} s, {other[1]:.1f} s: {other[1] / levin[1]:.2f}")


def margin(values):
    ordered = sorted(values, reverse=True)
    return ordered[0] - ordered[1] if len(ordered) > 1 else 1e9


def compare_harness(args, folder, report):
    import lm_eval
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager
    tasks = [str(folder / f"{name}.yaml") for name in args.forms]
    model = HFLM(pretrained=args.model, dtype=args.dtype, device="cpu", batch_size=args.batch_size)
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    model.tokenizer("warm")
    for _ in range(args.rounds):
        scores, items, seconds = run_levin(args, tasks, folder / "items.jsonl")
        begin, before = time.perf_counter(), time.process_time()
        theirs = lm_eval.simple_evaluate(model=model, tasks=[f"{n}_local" for n in args.forms], task_manager=manager, log_samples=True, bootstrap_iters=0)
        report.times("lm-eval", seconds, (time.perf_counter() - begin, time.process_time() - before))
    for name in args.forms:
        name += "_local"
        samples, mine = sorted(theirs["samples"][name], key=lambda s: s["doc_id"]), items[name]
        worst, choices, close = 0.0, 0, 0
        for sample, item in zip(samples, mine, strict=True):
            got = item["log_likelihoods"]
            want = [r[0] if isinstance(r, (list, tuple)) else r for r in sample["filtered_resps"]]
            if len(want) != len(got):
                want, got = [sum(want)], [sum(got)]
            worst = max([worst] + [abs(a - b) for a, b in zip(want, got, strict=True)])
            if "choice" not in item:
                continue
            choice = max(range(len(want)), key=lambda i: want[i])
            if choice != item["choice"]:
                choices += margin(want) >= CLOSE
                close += margin(want) < CLOSE
            elif item["correct"] != bool(sample["acc"]):
                choices += 1
        values = []
        for key, value in theirs["results"][name].items():
            metric = key.split(",")[0]
            if metric in scores[name] and isinstance(value, float):
                values.append((metric, value, scores[name][metric]))
        bad = choices > 0 or (args.dtype == "float32" and any(abs(a - b) > 1e-3 * max(1, abs(a)) for _, a, b in values))
        report.line(f"{name}: {len(mine)} items, {choices} different, {close} closer than rounding, log-likelihoods within {worst:.2e}; "
                    + ", ".join(f"{m} {b:.4f} ({a:.4f})" for m, a, b in values), bad and args.dtype == "float32")


class Tokenizer:
    """What core_eval.py asks of a tokenizer."""

    def __init__(self, path):
        import transformers
        self.inner = transformers.AutoTokenizer.from_pretrained(path)

    def get_bos_token_id(self):
        return self.inner.bos_token_id

    def __call__(self, prompts, prepend):
        return [[prepend] + self.inner.encode(p, add_special_tokens=False) for p in prompts]


def compare_core(args, folder, report):
    import torch
    import transformers
    spec = importlib.util.spec_from_file_location("core_eval", args.core_eval)
    core_eval = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(core_eval)
    inner = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=getattr(torch, args.dtype)).eval()

    class Model:
        max_seq_len = inner.config.max_position_embeddings

        def __call__(self, ids):
            return inner(ids).logits

    model, tokenizer = Model(), Tokenizer(args.model)
    import yaml
    for _ in range(args.rounds):
        scores, items, seconds = run_levin(args, [str(folder)], folder / "items.jsonl")
        other, results = [0.0, 0.0], {}
        for task in yaml.safe_load((folder / "core.yaml").read_text())["icl_tasks"]:
            data = [json.loads(line) for line in (folder / "eval_data" / task["dataset_uri"]).read_text().splitlines()]
            random.Random(1337).shuffle(data)
            meta = {"task_type": task["icl_task_type"], "num_fewshot": task["num_fewshot"][0], "continuation_delimiter": task.get("continuation_delimiter", " ")}
            begin, before = time.perf_counter(), time.process_time()
            results[task["label"]] = [core_eval.evaluate_example(i, model, tokenizer, data, "cpu", meta) for i in range(len(data))]
            other[0] += time.perf_counter() - begin
            other[1] += time.process_time() - before
        report.times("core_eval.py", seconds, other)
    for name, correct in results.items():
        wrong = [i for i, (a, item) in enumerate(zip(correct, items[name], strict=True)) if a != item["correct"]]
        report.line(f"CORE {name}: {len(correct)} items, {len(wrong)} different {wrong[:5]}; accuracy {scores[name]['acc']:.4f} "
                    f"({sum(correct) / len(correct):.4f}), centered {scores[name]['centered']:.4f}", bool(wrong) and args.dtype == "float32")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--text", nargs="+", required=True)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--forms", nargs="+", default=list(YAML), choices=list(YAML))
    parser.add_argument("--fewshot", type=int, default=0)
    parser.add_argument("--core-eval")
    parser.add_argument("--core-shots", type=int, default=10)
    parser.add_argument("--only-core", action="store_true")
    parser.add_argument("--levin", default=str(ROOT / "build/levin"))
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--batch-size", default="8")
    parser.add_argument("--rounds", default=1, type=int)
    parser.add_argument("--folder", default="/tmp/compare-tasks")
    args = parser.parse_args()
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", HF_DATASETS_CACHE=f"{args.folder}/cache")
    folder, report, found = pathlib.Path(args.folder), Report(), passages(args.text)
    (folder / "bundle").mkdir(parents=True, exist_ok=True)
    print(f"{len(found)} passages")
    if not args.only_core:
        make_tasks(folder, found, args.count, args.fewshot)
        compare_harness(args, folder, report)
    if args.core_eval:
        make_bundle(folder / "bundle", found, args.count, args.core_shots)
        compare_core(args, folder / "bundle", report)
    return int(report.failed)


if __name__ == "__main__":
    sys.exit(main())
