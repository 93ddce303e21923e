#!/usr/bin/env python3
"""Write tests/golden/templates/cases.jsonl: small chat templates and what transformers renders from them.

Needs transformers and jinja2. The first line has the variables of all cases. Each other line is {"template", "text",
"generation"}, with "error" if transformers refuses, where "text" is null, and with "left_out" if only levin refuses.
"generation" lists the [begin, end) byte ranges in UTF-8 of text within {% generation %}.
tests/unit/templates/test_chat_template.c reads the file.
Usage: tools/make_golden_templates.py
"""

import datetime
import json
import pathlib

import transformers.utils.chat_template_utils as utils


class Pinned(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 1, 5, 3, 4, 5)


utils.datetime = Pinned

TALK = [{"role": "system", "content": " be kind\n"}, {"role": "user", "content": "hi <|end|> there"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nyes", "tool_calls": [
            {"type": "function", "function": {"name": "f", "arguments": {"b": 1.5, "a": [None, True, "é\"'\n"]}}}]}]
DATA = {"s": "  Grüße, Welt! 日本 😀 \n", "n": 7, "f": 2.5, "l": [3, 1, 2], "d": {"b": 1, "A": [2, {"c": None}], "items": 3},
        "e": "", "nil": None, "yes": True, "words": "a,b,,c", "q": "it's \"quoted\" \\ \t\x7f\u200b\u00a0"}

EXPRESSIONS = """
s|trim; s.strip(); s.lstrip(); s.rstrip(' \\n'); s|length; s[2]; s[-3]; s[2:5]; s[::-1]; s[::2]; s[:-2]; s[99]; s[5:2]
s|upper; 'grün'|lower; 'GRÜN Σ'|lower; 'ab CD'|capitalize; 'ab cd-ef (gh'|title; "it's mary".title()
words.split(','); words.split(',')[-1]; words.split(',', 1); ' a  b '.split(); ' a  b c '.split(None, 1); 'a--b--c'.rsplit('--', 1)
'a\\nb\\r\\nc'.splitlines(); 'x'.join(['a', 'b']); words.replace(',', ';'); words|replace(',', ';', 1); 'aXbX'.count('X')
'abc'.startswith('ab'); 'abc'.endswith(('x', 'bc')); 'abc'.find('c'); 'aéc'.find('c'); 'abab'.rfind('ab'); 'abc'.removeprefix('a'); 'abc'.removesuffix('x')
'{} and {}'.format(1, 'b'); '{1}{0}{{}}'.format('x', n); 'abc'.isalpha(); '12'.isdigit(); 'a1'.isalnum(); ' '.isspace(); ''.isalpha()
n + 1; n - 10; n * 2; n / 2; n // 2; -n // 2; n % 4; -n % 4; n ** 2; 2 ** 3 ** 2; f + 1; f * 2; 1e3; 1.0; 0.1 + 0.2; 1e16; 1e-5; 1e15 + 0.5; -0.0; 7 // 0
n == 7.0; n != 7; 1 < 2 < 3; 1 < 3 < 2; 'a' < 'b'; 'a' < 1; not n; n and e; e or n; e and n; nil == none; true == 1; [1, 2] == [1, 2]; (1, 2) == [1, 2]
'a' in 'cat'; 3 in l; 9 not in l; 'b' in d; 1 in 'a'; 'x' in nil; n if yes else f; n if not yes; 'a' ~ n ~ nil ~ yes ~ f ~ l
l|first; l|last; l|sort; l|sort(reverse=true); l|length; l|join('-'); l|sum; l|max; l|min; l|reverse|list; l[1:]; l[::-1]; l[5]; l[-1]; l + [4]; l * 2; []|first
d.b; d['A']; d.A[1].c; d.items(); d['items']; d.items is defined; d.get('b'); d.get('x'); d.get('x', 5); d.keys()|list; d.values()|list; d|length; d|dictsort; d|items|list
d|dictsort(true); d|dictsort(by='value'); d|list; d.x; d.x is defined; d.x.y; d.pop('b'); l.append(1); d['x']['y']
d|tojson; l|tojson; s|tojson; q|tojson; q|tojson(ensure_ascii=true); s|tojson(ensure_ascii=true); d|tojson(indent=2); d|tojson(separators=(',', ':')); d|tojson(sort_keys=true); {}|tojson(indent=2); [[], {}]|tojson(indent=1); nil|tojson; missing|tojson
d; q; s; nil; yes; f; [1.0, 'a', none, (1,)]; (1, 2); {'a': 1, 2: 'b'}; 'a"b\\'c'; '\\x41\\u00e9'; ["it's"]
missing; missing.a; missing + 1; missing|default('x'); e|default('x', true); e|d('x'); missing|length; missing|list; missing in l; missing == missing; missing ~ 'a'
n is number; n is integer; f is float; yes is boolean; yes is integer; yes is number; s is string; l is sequence; l is iterable; d is mapping; d is sequence; nil is none; nil is defined; missing is undefined; n is odd; n is even; n is divisibleby 7; n is divisibleby(2); n is eq 7; n is gt(3); n is in l; s is not none; l is string; missing is iterable; raise_exception is callable; n is sameas n
'3'|int; '3.7'|int; 'x'|int; 'x'|int(9); '2.5'|float; -3|abs; n|string ~ 'x'; 5|string; nil|string; nil|trim; l|string; '<a>'|e; '<a>'|safe; '<a>' + ('<b>'|safe); ('<b>'|safe) ~ '<a>'
'a\\nb\\n\\nc'|indent; 'a\\nb'|indent(2, true); 'a\\n\\nb'|indent('> ', blank=true); ['a', 'A', 'b']|unique|list; ['b', 'A', 'c']|sort; ['b', 'A', 'c']|sort(case_sensitive=true)
messages|map(attribute='role')|list; messages|map(attribute='x', default='-')|join; ['a', 'b']|map('upper')|join(','); messages|selectattr('role', 'equalto', 'user')|list|length; messages|rejectattr('role', '==', 'user')|map(attribute='content')|join('|'); [0, 1, 2]|select|list; [1, 2, 3]|select('odd')|list; [1, 2]|reject('odd')|list; messages|selectattr('tool_calls')|list|length; messages|selectattr('tool_calls', 'defined')|list|length; nil|selectattr('a')|list; (messages|selectattr('x')) and 1; messages|map(attribute='tool_calls.0.function.name')|list
range(3)|list; range(1, 6, 2)|list; range(3, 0, -1)|list; range(5)|length; range(3)[1]; dict(a=1)|tojson; strftime_now('%d %b %Y'); strftime_now('%Y-%m-%d'); raise_exception('no ' ~ n); messages[0].content; messages[-1]['content'].split('</think>')[-1].lstrip('\\n'); messages[2].tool_calls[0].function.arguments|tojson; messages[1:]|length; messages[0]['role'] == 'system'
1 if n > 5 and (s is string or missing.x) else 2; n|abs + 1; -n|abs; (-n)|abs; not n == 7; n is not odd; [1, 2,]; {'a': [1, {'b': 2}]}.a[1].b; 'a' 'b' "c"; l.index(2); l.count(1); 1_000; s.strip().split(' ')|join('_'); 'x'*3; [0] * 2; namespace(a=1).a; loop; caller; s.encode('utf-8'); 'a' % 1; n.real; n.foo; s._x; d.__class__
"""

BLOCKS = [
    "{% for m in messages %}{{ loop.index }}/{{ loop.length }} {{ m.role }}{% if not loop.last %}, {% endif %}{% endfor %}",
    "a\n  {% if yes %}\nb\n  {% endif %}  \nc\n", "a {%- if yes -%} b {%- endif -%} c", "x\n  {%+ if yes %}y{% endif +%}\nz",
    "  {# note #}\na {#- b -#} c\n{# d #}\n", "{{ n }}\n{{- n -}}\n {{ n }}\n\n", "{% set a = 1 %}{% for i in l %}{% set a = a + i %}{{ a }},{% endfor %}{{ a }}",
    "{% set ns = namespace(t=0, s='') %}{% for i in l %}{% set ns.t = ns.t + i %}{% set ns.s = ns.s ~ i %}{% endfor %}{{ ns.t }}{{ ns.s }}",
    "{% for i in l if i > 1 %}{{ loop.index0 }}:{{ i }} {% else %}none{% endfor %}", "{% for i in [] %}x{% else %}none{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for c in 'añb' %}[{{ c }}]{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}",
    "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in l %}{% for j in l %}{{ loop.index }}{{ loop.first }}{{ i }}{{ j }} {% endfor %}{{ loop.revindex }}|{% endfor %}",
    "{% for i in l %}{{ loop.depth }}{% for j in l %}{{ loop.depth }}{{ loop.depth0 }} {% endfor %}{% endfor %}",
    "{% for i in l %}{{ loop.previtem }}<{{ i }}<{{ loop.nextitem is defined }} {% endfor %}",
    "{% macro f(a, b='x') %}({{ a }}{{ b }}){% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(b=3, a=4) }}{{ f() }}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{% macro f() %}{{ n }}{{ z }}{% endmacro %}{% set z = 5 %}{{ f() }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}", "{% macro f() -%} x {%- endmacro %}[{{ f() ~ f() | upper }}]",
    "{% set x %}  a{{ n }} {% endset %}[{{ x|trim }}]", "{% set x | trim | upper %}  a {% endset %}[{{ x }}]", "{% filter upper %}ab{{ 'c' }}{% endfilter %}",
    "{% set a, b = [1, 2] %}{{ b }}{{ a }}", "{% set a, b = [1, 2, 3] %}", "{% if n == 1 %}a{% elif n == 7 %}b{% elif n %}c{% else %}d{% endif %}",
    "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|end|>{% endgeneration %}{% else %}{{ m.content }}{% endif %}\n{% endfor %}",
    "{% for m in messages %}<|{{ m.role }}|>{% generation %}é{{ loop.index }}{% endgeneration %}{% endfor %}", "{{ 'a' }}{{ {'b': {'c': 1}}['b'].c }}{{ '}}' }}",
    "{%- for m in messages -%}\n  {{- '<|' + m['role'] + '|>' }}\n{{ m.content | trim }}\n{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
    "{{ messages }}", "{{ messages|tojson(indent=4) }}", "{{ raise_exception('Roles must alternate') }}", "{{ n }", "{% if n %}", "{% endif %}", "{% for i in l recursive %}{% endfor %}",
    "{% include 'x' %}", "{{ n|nosuch }}", "{{ n is nosuch }}", "{% if false %}{{ n|nosuch }}{% endif %}ok", "{% break %}", "{% for %}{% endfor %}", "{{ }}", "{{ (1 }}", "{{ 'a }}",
    "{% set ns = namespace() %}{{ ns.x is defined }}{% set ns.x = l %}{{ ns.x[0] }}{% if ns.x %}!{% endif %}", "{% set d.x = 1 %}", "{% set x = 1 %}{% if yes %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% for i in l %}{% set x = i %}{% endfor %}{{ x is defined }}", "{% for i in none %}{% endfor %}", "a\r\nb{% if yes %}\r\nc{% endif %}", "\n{{ n }}\n", "{{ n }}\n\n", "{% set x = [] %}{{ x or 'empty' }}",
    "{%- set ns = namespace(first=true) -%}{%- for m in messages if m.role != 'system' -%}{{ '' if ns.first else '|' }}{% set ns.first = false %}{{ loop.index0 % 2 == 0 }}{%- endfor -%}",
]

# Rendered by transformers, refused by levin.
LEFT_OUT = ["{{ s|upper }}", "{{ d.items() }}", "{{ caller }}", "{{ s.encode('utf-8') }}", "{{ n.real }}", "{{ s._x }}",
            "{{ d.__class__ }}", "{% for i in l recursive %}{% endfor %}"]


def spans(text, found):
    return [[len(text[:a].encode()), len(text[:b].encode())] for a, b in found if b > a]


def case(template):
    variables = {"messages": TALK, "add_generation_prompt": True, **DATA}
    row = {"template": template, "text": None, "generation": []}
    try:
        compiled = utils._compile_jinja_template(template)
        settings = {k: v for k, v in variables.items() if k not in ("messages", "add_generation_prompt")}
        text, found = utils._render_with_assistant_indices(compiled, TALK, None, None, True, **settings)
        row["text"], row["generation"] = text, spans(text, found)
    except Exception as e:
        row["error"] = f"{type(e).__name__}: {str(e).splitlines()[0]}"
    return row


def main():
    out = pathlib.Path(__file__).parent.parent / "tests/golden/templates/cases.jsonl"
    out.parent.mkdir(exist_ok=True)
    rows = [case("{{ " + e.strip() + " }}") for line in EXPRESSIONS.strip().split("\n") for e in line.split("; ")]
    rows += [case(b) for b in BLOCKS]
    for row in rows:
        if row["template"] in LEFT_OUT:
            row["left_out"] = True
    lines = [{"variables": {"messages": TALK, "tools": None, "documents": None, "add_generation_prompt": True, **DATA}}, *rows]
    out.write_text("\n".join(json.dumps(x, ensure_ascii=False) for x in lines) + "\n", encoding="utf-8")


main()
