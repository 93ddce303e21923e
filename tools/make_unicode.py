#!/usr/bin/env python3
"""make_unicode.py - writes the Unicode tables of the tokenizers, unicode_*.def.

Classes (letter, number, white space) are queried from tiktoken, the reference for GPT-2's ids, one code point at a time, and so
follow its version of Unicode, not Python's; BERT's, and the categories that regular expressions name (\\p{Lu}), are queried from
Hugging Face's tokenizers in the same way. Compositions (NFC, NFKC) are Python's, classes of grapheme clusters those of the
module regex.

    make_unicode.py [classes | words | categories | graphemes | compatible] ...     these tables; without arguments all of them

Needs tiktoken, tokenizers and regex. Run it when the reference changes to another version of Unicode.
"""
import sys
import textwrap
import unicodedata
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "src/tokenizers/unicode"
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def members(pattern):
    import tiktoken

    encoding = tiktoken.Encoding("probe", pat_str=pattern, mergeable_ranks={bytes([i]): i for i in range(256)},
                                 special_tokens={})
    return {c for c in POINTS if encoding.encode_ordinary(chr(c))}


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


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
    for table in sys.argv[1:] or ["classes", "words", "categories", "graphemes"]:
        {"classes": classes, "words": words, "categories": categories, "graphemes": graphemes, "compatible": compatible}[table]()
    return 0


def matched(expression):
    """The code points that an expression of Hugging Face's tokenizers matches."""
    from tokenizers import Regex, pre_tokenizers

    cut = pre_tokenizers.Split(Regex(expression), "removed", invert=True)
    return {c for text in ("".join(map(chr, POINTS[i:i + 4096])) for i in range(0, len(POINTS), 4096))
            for piece, _ in cut.pre_tokenize_str(text) for c in map(ord, piece)}


def categories():
    """General categories, characters inside of words for the pre-tokenizer Whitespace, and accents."""
    from tokenizers import __version__ as version
    from tokenizers import normalizers, pre_tokenizers

    names = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
    rows = []
    for name in names:
        rows += [f"G({a:#x},{b:#x},{name})" for a, b in ranges(matched(rf"\p{{{name}}}+"))]
    white = pre_tokenizers.Whitespace()
    inside = [c for c in POINTS if len(white.pre_tokenize_str("a" + chr(c) + "a")) == 1]
    rows += [f"W({a:#x},{b:#x})" for a, b in ranges(inside)]
    off = normalizers.StripAccents()
    rows += [f"A({a:#x},{b:#x})" for a, b in ranges([c for c in POINTS if not off.normalize_str(chr(c))])]
    write("unicode_categories.def", "G(first, last, category): general category; W(first, last): characters that the "
          "pre-tokenizer Whitespace keeps inside a word; A(first, last): accents that StripAccents removes. Source: "
          f"Hugging Face's tokenizers {version}.", rows)


def graphemes():
    import regex

    text, rows = "".join(map(chr, POINTS)), []
    kinds = {"CONTROL": "Grapheme_Cluster_Break=Control", "EXTEND": "Grapheme_Cluster_Break=Extend",
             "PREPEND": "Grapheme_Cluster_Break=Prepend", "SPACING": "Grapheme_Cluster_Break=SpacingMark",
             "PICTURE": "Extended_Pictographic"}
    for kind, name in kinds.items():
        points = [ord(c) for c in regex.findall(rf"\p{{{name}}}", text)]
        rows += [f"B({a:#x},{b:#x},{kind})" for a, b in ranges(points)]
    write("unicode_graphemes.def", "B(first, last, class): the properties Grapheme_Cluster_Break and "
          f"Extended_Pictographic, by which texts are divided into grapheme clusters. Source: regex {regex.__version__}.", rows)


def classes():
    import tiktoken

    classes = {"LETTER": members(r"\p{L}"), "NUMBER": members(r"\p{N}"), "SPACE": members(r"\s")}
    rows = [f"{name[0]}({a:#x},{b:#x})" for name, points in classes.items() for a, b in ranges(points)]
    write("unicode_classes.def", "L(first, last): letters; N: numbers; S: white space. Source: tiktoken "
          f"{tiktoken.__version__}.", rows)
    # Hangul syllables are composed by rule, not by table.
    ccc = {c: unicodedata.combining(chr(c)) for c in POINTS if unicodedata.combining(chr(c))}
    rows, run = [], None
    for c in sorted(ccc):
        if run and run[1] == c - 1 and run[2] == ccc[c]:
            run[1] = c
        else:
            run and rows.append(f"C({run[0]:#x},{run[1]:#x},{run[2]})")
            run = [c, c, ccc[c]]
    rows.append(f"C({run[0]:#x},{run[1]:#x},{run[2]})")
    for c in POINTS:
        d = unicodedata.decomposition(chr(c))
        if not d or d[0] == "<":
            continue
        parts = [int(x, 16) for x in d.split()] + [0]
        both = len(parts) == 3 and unicodedata.normalize("NFC", chr(parts[0]) + chr(parts[1])) == chr(c)
        rows.append(f"{'D' if both else 'E'}({c:#x},{parts[0]:#x},{parts[1]:#x})")
    write("unicode_compose.def", "C(first, last, combining class); D(code, first, second): canonical decomposition, "
          "which composition reverses; E(code, first, second): one that it does not reverse. Source: Unicode "
          f"{unicodedata.unidata_version}.", rows)
    compatible()


def compatible():
    """Full compatibility decompositions that differ from the canonical ones."""
    from tokenizers import __version__ as version
    from tokenizers import normalizers

    nfd, nfkd, rows = normalizers.NFD(), normalizers.NFKD(), []
    for c in POINTS:
        parts = nfkd.normalize_str(chr(c))
        if parts != nfd.normalize_str(chr(c)):
            rows.append(f"K({len(parts)}," + ",".join(hex(ord(x)) for x in [chr(c), *parts]) + ")")
    write("unicode_compat.def", "K(n, code, n parts): compatibility decomposition, if it differs from the canonical one. Source: "
          f"Hugging Face's tokenizers {version}.", rows)


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


def words():
    """Character classes that decide on BERT's words, queried from Hugging Face's tokenizers."""
    from tokenizers import __version__ as version
    from tokenizers import normalizers, pre_tokenizers

    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    cleaned = normalizers.BertNormalizer(**{**off, "clean_text": True})
    stripped = normalizers.BertNormalizer(**{**off, "strip_accents": True})
    lower = normalizers.BertNormalizer(**{**off, "lowercase": True})
    cut = pre_tokenizers.BertPreTokenizer()
    kinds, small = {"P": [], "X": [], "Z": [], "M": []}, {}
    for c in POINTS:
        text = chr(c)
        if cleaned.normalize_str(text) == "":
            kinds["X"].append(c)
        elif cleaned.normalize_str(text) == " " or not cut.pre_tokenize_str(text):
            kinds["Z"].append(c)
        elif len(cut.pre_tokenize_str("a" + text + "a")) == 3:
            kinds["P"].append(c)
        elif stripped.normalize_str(text) == "":
            kinds["M"].append(c)
        low = [ord(x) for x in lower.normalize_str(text)]
        if low != [c]:
            small[c] = low
    rows = [f"{kind}({a:#x},{b:#x})" for kind, points in kinds.items() for a, b in ranges(points)] + lower_case_rows(small)
    write("unicode_words.def", "P(first, last): punctuation; X: control characters; Z: white space; M: marks; L(first, "
          "last, step, to add, second letter): lower case, for every step-th letter. Source: "
          f"Hugging Face's tokenizers {version}.", rows)


sys.exit(main())
