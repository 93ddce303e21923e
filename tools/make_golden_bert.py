#!/usr/bin/env python3
"""make_golden_bert.py - writes tests/golden/bert: tiny models of transformers with a head, and its results in double.

Each folder holds a model directory as transformers writes it (config.json, model.safetensors in fp32) and
reference.safetensors: a batch (ids, types, length, and label or labels) with texts shorter than the batch, the prediction,
the mean loss and the gradient of every parameter, by the model in double with eager attention; the change of each parameter
in five AdamW steps on the batch (update.NAME) and their losses (steps.loss); and how far PyTorch's autocast to bf16 differs
from all these (bf16.off: losses, prediction, the worst gradient and the worst update, relative to their norms).

  classify, classify3   BertForSequenceClassification, of two classes and of three (wider MLP, no cached pooler)
  regress               BertForSequenceClassification with problem_type "regression"; labels are numbers
  mlm                   BertForMaskedLM
  roberta, roberta-mlm  RobertaForSequenceClassification and RobertaForMaskedLM, whose padding is the token 1
  gpt2                  GPT2ForSequenceClassification: the last token of each text
"""
import copy
import os
import sys

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file

B, T, V, C = 5, 11, 37, 16
STEPS, CLIP = 5, 1.0
OPTIMIZER = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
LENGTHS = [11, 3, 7, 1, 10]


def batch(seed, classes):
    g = torch.Generator().manual_seed(seed)
    length = torch.tensor(LENGTHS)
    there = torch.arange(T)[None, :] < length[:, None]
    ids = torch.randint(1, V, (B, T), generator=g) * there
    types = (torch.arange(T)[None, :] >= (length[:, None] + 1) // 2).long() * there
    label = torch.randint(0, classes, (B,), generator=g) if classes > 1 else torch.randn(B, generator=g)
    labels = torch.where((torch.rand(B, T, generator=g) < 0.4) & there, torch.randint(0, V, (B, T), generator=g), -1)
    return ids, types, length, there, label, labels


def train(model, loss_of):
    """Five AdamW steps, matrices decaying: their losses, and what they add to each parameter."""
    named = dict(model.named_parameters())
    start = {k: p.detach().clone() for k, p in named.items()}
    optimizer = torch.optim.AdamW([{"params": [p for p in named.values() if p.dim() >= 2]},
                                   {"params": [p for p in named.values() if p.dim() < 2], "weight_decay": 0.0}],
                                  **OPTIMIZER)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model)[0]
        loss.backward()
        losses.append(loss.item())
        torch.nn.utils.clip_grad_norm_(named.values(), CLIP)
        optimizer.step()
    return torch.tensor(losses, dtype=torch.float64), {k: p.detach() - start[k] for k, p in named.items()}


def distance(x, y):
    return ((x.double() - y).norm() / y.norm()).item()


def in_theory(name):
    """Biases of keys have no gradient in theory; in practice AdamW makes steps of what rounding leaves."""
    return not name.endswith(("key.bias", "c_attn.bias"))


def halved(model, loss_of, held):
    """How far autocast is off."""
    def rounded(m):
        with torch.autocast("cpu", torch.bfloat16):
            return loss_of(m)
    loss, prediction = rounded(model)
    loss.backward()
    gradients = max(distance(p.grad, held["gradient." + k]) for k, p in model.named_parameters() if in_theory(k))
    losses, updates = train(model, rounded)
    return torch.tensor([max((losses - held["steps.loss"]).abs().max().item(), abs(loss.item() - held["loss"].item())),
                         distance(prediction.detach(), held["prediction"]), gradients,
                         max(distance(u, held["update." + k]) for k, u in updates.items() if in_theory(k))],
                        dtype=torch.float64)


def make(out, name, model, seed, call, classes=2, pad=0):
    """Random weights that fp32 holds exactly; call(model, ids, types, there) -> prediction."""
    folder = os.path.join(out, name)
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=g) * 0.2 + (1.0 if p.dim() == 1 and p.mean() > 0.5 else 0.0))
    model.save_pretrained(folder)
    for spare in ("generation_config.json",):
        if os.path.exists(os.path.join(folder, spare)):
            os.remove(os.path.join(folder, spare))
    half, model = model.eval(), copy.deepcopy(model).double().eval()
    ids, types, length, there, label, labels = batch(seed, classes)
    if pad:  # transformers counts the positions of tokens that are not padding
        ids = torch.where(there, ids + (ids == pad), pad)
    shown = there[:, :, None]  # predictions at padding do not matter

    def loss_of(m):
        prediction = call(m, ids, types, there)
        if classes == 1:  # the loss that transformers computes
            return m(input_ids=ids, token_type_ids=types, attention_mask=there.long(),
                     labels=label.to(prediction.dtype)).loss, prediction
        if prediction.dim() == 2:
            return F.cross_entropy(prediction, label), prediction
        return F.cross_entropy(prediction.reshape(-1, V), labels.reshape(-1), ignore_index=-1), prediction * shown

    loss, prediction = loss_of(model)
    target = {"label": label.int() if classes > 1 else label} if prediction.dim() == 2 else {"labels": labels.int()}
    loss.backward()
    held = {"ids": ids.int(), "types": types.int(), "length": length.int(), "prediction": prediction.detach(),
            "loss": loss.detach().reshape(1), **target}
    for k, p in model.named_parameters():
        held["gradient." + k] = p.grad.clone()
    held["steps.loss"], updates = train(model, loss_of)
    held |= {"update." + k: u for k, u in updates.items()}
    held["bf16.off"] = halved(half, loss_of, held)
    save_file({k: v.contiguous().clone() for k, v in held.items()}, os.path.join(folder, "reference.safetensors"))
    print(f"{folder}: loss {loss.item():.6f}")


def main():
    top = os.path.join(os.path.dirname(__file__), "..", "tests", "golden")
    out = os.path.join(sys.argv[1] if len(sys.argv) > 1 else top, "bert")
    torch.set_num_threads(1)
    torch.manual_seed(0)

    def config(**more):
        return transformers.BertConfig(**{"vocab_size": V, "hidden_size": C, "num_hidden_layers": 2, "num_attention_heads": 2,
                                          "intermediate_size": 4 * C, "max_position_embeddings": 13,
                                          "attn_implementation": "eager"} | more)

    def bert(model, ids, types, there):
        return model(input_ids=ids, token_type_ids=types, attention_mask=there.long()).logits

    make(out, "classify", transformers.BertForSequenceClassification(config()), 1, bert)
    make(out, "classify3", transformers.BertForSequenceClassification(
        config(intermediate_size=40, id2label={0: "sad", 1: "so so", 2: "glad"},
               label2id={"sad": 0, "so so": 1, "glad": 2})), 2, bert, 3)
    make(out, "regress", transformers.BertForSequenceClassification(
        config(num_labels=1, problem_type="regression")), 5, bert, 1)
    roberta = {"max_position_embeddings": 15, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "vocab_size": V, "hidden_size": C,
               "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 40, "attn_implementation": "eager"}

    def untyped(model, ids, types, there):
        return model(input_ids=ids, attention_mask=there.long()).logits

    make(out, "roberta", transformers.RobertaForSequenceClassification(transformers.RobertaConfig(num_labels=3, **roberta)), 6,
         untyped, 3, pad=1)
    make(out, "roberta-mlm", transformers.RobertaForMaskedLM(transformers.RobertaConfig(hidden_act="gelu_new", **roberta | {"type_vocab_size": 2})), 8,
         untyped, pad=1)
    make(out, "mlm", transformers.BertForMaskedLM(config(hidden_act="gelu_new")), 3, bert)
    gpt2 = transformers.GPT2Config(vocab_size=V, n_positions=13, n_embd=C, n_layer=2, n_head=2, bos_token_id=0,
                                   eos_token_id=0, pad_token_id=0, num_labels=3, attn_implementation="eager")
    make(out, "gpt2", transformers.GPT2ForSequenceClassification(gpt2), 4,
         lambda model, ids, types, there: model(input_ids=ids, attention_mask=there.long()).logits, 3)


if __name__ == "__main__":
    main()
