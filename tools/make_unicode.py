#!/usr/bin/env python3
"""make_unicode.py - writes the Unicode tables of the tokenizers, unicode_*.def.

Classes (letter, number, white space) are queried from tiktoken, the reference for GPT-2's ids, one code point at a time, and so
follow its version of Unicode, not Python's; BERT's, and the categories that regular expressions name (\\p{Lu}), are queried from
Hugging Face's tokenizers in the same way. Compositions (NFC, NFKC) are Python's, classes of grapheme clusters those of the
module regex.

    make_unicode.py [properties | lower | compose | compatible] ...     these tables; without arguments all of them

Needs tiktoken, tokenizers and regex. Run it when the reference changes to another version of Unicode.
"""
import sys
import textwrap
import unicodedata
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "src/text/tokenizers/unicode"
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def members(pattern):
    import tiktoken

    encoding = tiktoken.Encoding("probe", pat_str=pattern, mergeable_ranks={bytes([i]): i for i in range(256)},
                                 special_tokens={})
    return {c for c in POINTS if encoding.encode_ordinary(chr(c))}


def write(name, description, rows):
    lines = [*textwrap.wrap(f"/* {name} - {description}", 118, subsequent_indent=" * ",
                            break_on_hyphens=False), " *",
             " * Written by tools/make_unicode.py: do not edit. */"]
    line = ""
    for row in rows:
        if len(line) + len(row) + 1 > 118:
            lines.append(line.rstrip())
            line = ""
        line += row + " "
    (FOLDER / name).write_text("\n".join(lines + [line.rstrip()]) + "\n")


def main():
    tables = {"properties": properties, "lower": lower, "compose": compose, "compatible": compatible}
    for table in sys.argv[1:] or tables:
        tables[table]()
    return 0


def matched(expression):
    """The code points that an expression of Hugging Face's tokenizers matches."""
    from tokenizers import Regex, pre_tokenizers

    cut = pre_tokenizers.Split(Regex(expression), "removed", invert=True)
    return {c for text in ("".join(map(chr, POINTS[i:i + 4096])) for i in range(0, len(POINTS), 4096))
            for piece, _ in cut.pre_tokenize_str(text) for c in map(ord, piece)}


def categories():
    """General categories, characters inside of words for the pre-tokenizer Whitespace, and accents."""
    from tokenizers import normalizers, pre_tokenizers

    names = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
    category = {c: name for name in names for c in matched(rf"\p{{{name}}}+")}
    white, off = pre_tokenizers.Whitespace(), normalizers.StripAccents()
    inside = {c for c in POINTS if len(white.pre_tokenize_str("a" + chr(c) + "a")) == 1}
    return category, inside, {c for c in POINTS if not off.normalize_str(chr(c))}


def graphemes():
    """What decides on the borders of grapheme clusters; a Hangul syllable is LV or LVT by rule."""
    import regex

    text = "".join(map(chr, POINTS))
    kinds = {"CONTROL": "Grapheme_Cluster_Break=Control", "EXTEND": "Grapheme_Cluster_Break=Extend",
             "PREPEND": "Grapheme_Cluster_Break=Prepend", "SPACING": "Grapheme_Cluster_Break=SpacingMark",
             "PICTURE": "Extended_Pictographic", "JOINER": "Grapheme_Cluster_Break=ZWJ",
             "HANGUL_L": "Grapheme_Cluster_Break=L", "HANGUL_V": "Grapheme_Cluster_Break=V",
             "HANGUL_T": "Grapheme_Cluster_Break=T", "HANGUL_S": "Grapheme_Cluster_Break=LV}\\p{Grapheme_Cluster_Break=LVT"}
    return {ord(c): kind for kind, name in kinds.items() for c in regex.findall(rf"[\p{{{name}}}]", text)}


def decompositions():
    """code point: (its two parts, the second 0 if there is none; does composition reverse it?)"""
    out = {}
    for c in POINTS:
        d = unicodedata.decomposition(chr(c))
        if d and d[0] != "<":
            parts = [int(x, 16) for x in d.split()] + [0]
            both = len(parts) == 3 and unicodedata.normalize("NFC", chr(parts[0]) + chr(parts[1])) == chr(c)
            out[c] = (*parts[:2], both)
    return out


def changed_by_nfc():
    """What NFC may change, or compose with the character before it: marks, parts and whatever is not composed again. Hangul
    is composed by rule."""
    out = {c for c in POINTS if unicodedata.combining(chr(c))} | {*range(0x1161, 0x1161 + 21), *range(0x11A7, 0x11A7 + 28)}
    for c, (_, second, both) in decompositions().items():
        out.add(second if both else c)
    return out


def word_classes():
    """Character classes that decide on BERT's words, queried from Hugging Face's tokenizers."""
    from tokenizers import normalizers, pre_tokenizers

    cleaned, stripped = bert_normalizer(clean_text=True), bert_normalizer(strip_accents=True)
    cut, out = pre_tokenizers.BertPreTokenizer(), {}
    for c in POINTS:
        text = chr(c)
        if cleaned.normalize_str(text) == "":
            out[c] = "CONTROL"
        elif cleaned.normalize_str(text) == " " or not cut.pre_tokenize_str(text):
            out[c] = "SPACE"
        elif len(cut.pre_tokenize_str("a" + text + "a")) == 3:
            out[c] = "PUNCTUATION"
        elif stripped.normalize_str(text) == "":
            out[c] = "ACCENT"
    return out


def properties():
    import regex
    import tiktoken
    import tokenizers

    classes = {c: name for name, p in {"LETTER": r"\p{L}", "NUMBER": r"\p{N}", "SPACE": r"\s"}.items() for c in members(p)}
    words, clusters, changed = word_classes(), graphemes(), changed_by_nfc()
    category, inside, accents = categories()
    kinds, runs = {}, []
    for c in range(0x110000):
        kind = (classes.get(c, "OTHER"), words.get(c, "LETTER"), category.get(c, "OTHER"), clusters.get(c, "OTHER"),
                unicodedata.combining(chr(c)), int(c in inside), int(c in accents), int(c in changed))
        number = kinds.setdefault(kind, len(kinds))
        if runs and runs[-1][1] == number:
            runs[-1][0] += 1
        else:
            runs.append([1, number])
    all_kinds = [kind for n, kind in runs for _ in range(n)]
    mixed = sum(len(set(all_kinds[c:c + 128])) > 1 for c in range(0, 0x110000, 128))
    rows = ["P(" + ",".join(map(str, kind)) + ")" for kind in kinds] + [f"R({n},{kind})" for n, kind in runs] + [f"M({mixed})"]
    write("unicode_properties.def", "P(class, class in BERT's words, general category, class in grapheme clusters, combining "
          "class, is kept inside a word by the pre-tokenizer Whitespace, StripAccents removes it, NFC may change it or compose it "
          "with the character before it): the properties that characters have; R(n, k): the next n code points have the k-th "
          f"of them; M(n): n blocks of 128 code points are not all identical. Sources: tiktoken {tiktoken.__version__}, Hugging Face's tokenizers {tokenizers.__version__}, regex "
          f"{regex.__version__}, Unicode {unicodedata.unidata_version}.", rows)


def compose():
    rows = [f"{'D' if both else 'E'}({c:#x},{first:#x},{second:#x})" for c, (first, second, both) in decompositions().items()]
    write("unicode_compose.def", "D(code, first, second): canonical decomposition, which composition reverses; E(code, "
          f"first, second): one that it does not reverse. Source: Unicode {unicodedata.unidata_version}.", rows)


def compatible():
    """Full compatibility decompositions that differ from the canonical ones."""
    from tokenizers import __version__ as version
    from tokenizers import normalizers

    nfd, nfkd, runs = normalizers.NFD(), normalizers.NFKD(), []
    for c in POINTS:
        parts = [ord(x) for x in nfkd.normalize_str(chr(c))]
        if parts == [ord(x) for x in nfd.normalize_str(chr(c))]:
            continue
        assert c < 0x20000, "unicode.c has no index for this code point"
        if runs and continues_run(runs[-1], c, parts):
            runs[-1][1] += 1
        else:
            runs.append([c, 1, None, parts])
    rows = [(f"K({len(parts)}," if count == 1 else f"S({len(parts)},{count},{varying},") +
            ",".join(map(hex, [c, *parts])) + ")" for c, count, varying, parts in runs]
    write("unicode_compat.def", "K(n, code, n parts): compatibility decomposition, if it differs from the canonical one; S(n, count, "
          "v, code, n parts): count code points from code on; part v counts up with them, and none does if v is n. Source: "
          f"Hugging Face's tokenizers {version}.", rows)


def continues_run(run, c, parts):
    """Is c the next code point of a run, with its parts, or with one part that counts up? Sets which one at the second."""
    first, count, varying, base = run
    if c != first + count or len(parts) != len(base):
        return False
    for v in range(len(base) + 1) if varying is None else [varying]:
        if parts == [part + count * (i == v) for i, part in enumerate(base)]:
            run[2] = v
            return True
    return False


def lower_case_rows(small):
    """Runs of letters with the same distance to their lower-case letters: A to Z, or every second code point."""
    runs = []
    for c, low in sorted(small.items()):
        add, second = low[0] - c, low[1] if len(low) > 1 else 0
        run = runs[-1] if runs else None
        step = c - run[1] if run else 0
        if run and step < 3 and run[2] in (0, step) and run[3:] == [add, 0] and not second:
            run[1:3] = c, step
        else:
            runs.append([c, c, 0, add, second])
    return [f"L({a:#x},{b:#x},{step or 1},{add},{second:#x})" for a, b, step, add, second in runs]


def bert_normalizer(**on):
    from tokenizers import normalizers

    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **on})


def lower():
    from tokenizers import __version__ as version

    small, normalizer = {}, bert_normalizer(lowercase=True)
    for c in POINTS:
        low = [ord(x) for x in normalizer.normalize_str(chr(c))]
        if low != [c]:
            small[c] = low
    write("unicode_lower.def", "L(first, last, step, to add, second letter): lower case, for every step-th letter. Source: "
          f"Hugging Face's tokenizers {version}.", lower_case_rows(small))


sys.exit(main())
