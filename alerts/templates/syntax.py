"""Template parser: the part of Go's text/template that rule files use.

Supported: text, `{{ pipeline }}` with trim markers and comments, `if`/`else if`/`else`, `with`, `range`, `break`,
`continue`, `define`, `template`, `block`, variables, fields, methods, calls, parentheses. Bounded in length and
depth. `alerts.templates.expansion` evaluates the tree.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from alerts.errors import TemplateError
from alerts.templates.nodes import (
    Branch,
    Inclusion,
    Jump,
    Literal,
    Operand,
    ParsedTemplate,
    Path,
    Piece,
    Pipeline,
    TemplateCall,
)

MAX_LENGTH = 65_536
MAX_DEPTH = 40


_KEYWORDS = frozenset("if with range define block template break continue".split())
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|`[^`]*`)
    |(?P<character>'(?:[^'\\\n]|\\.)+')
    |(?P<number>[+-]?(?:0[xX][\da-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+
        |(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?))(?![\w.])
    |(?P<field>\.[A-Za-z_]\w*)
    |(?P<variable>\$\w*)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign>:=|[.|(),=])""",
    re.VERBOSE | re.ASCII,
)
_OPEN = re.compile(r"\{\{(?:-(?=\s))?")
_COMMENT = re.compile(r"\s*/\*.*?\*/\s*?(?:(?<=\s)-)?\}\}", re.DOTALL)


class TemplateToken(NamedTuple):
    """A token of an action; `at` is its offset."""

    kind: str
    text: str
    at: int


@dataclass
class _Action:
    tokens: list[TemplateToken]
    at: int


@dataclass
class _Parser:
    text: str
    functions: frozenset[str]
    pieces: list[str | _Action] = field(default_factory=list)
    next: int = 0
    depth: int = 0
    loops: int = 0
    variables: list[str] = field(default_factory=list)
    definitions: dict[str, tuple[Piece, ...]] = field(default_factory=dict)

    def error(self, message: str, at: int) -> TemplateError:
        line = self.text.count("\n", 0, at) + 1
        return TemplateError(message, line, at - (self.text.rfind("\n", 0, at) + 1) + 1)

    # Text and actions.

    def split(self) -> None:
        at, trims = 0, False
        while found := _OPEN.search(self.text, at):
            self._add_text(self.text[at : found.start()], trims, found[0].endswith("-"))
            at, trims = self._action(found.end(), found.start())
        self._add_text(self.text[at:], trims, False)

    def _add_text(self, text: str, trims_left: bool, trims_right: bool) -> None:
        text = text.lstrip(" \t\r\n") if trims_left else text
        text = text.rstrip(" \t\r\n") if trims_right else text
        if text:
            self.pieces.append(text)

    def _action(self, at: int, opened: int) -> tuple[int, bool]:
        """Read tokens up to the closing braces; return their end and whether they trim the following text."""
        if comment := _COMMENT.match(self.text, at):
            return comment.end(), comment[0].endswith("-}}")
        tokens: list[TemplateToken] = []
        while not (closing := re.compile(r"\s-\}\}|\}\}").match(self.text, at)):
            found = _TOKEN.match(self.text, at)
            if found is None:
                missing = at >= len(self.text)
                message = "'}}' is missing" if missing else f"{self.text[at]!r} may not stand here"
                raise self.error(message, opened if missing else at)
            if found.lastgroup != "space" or not self.text.startswith("-}}", found.end()):
                tokens.append(TemplateToken(found.lastgroup or "", found[0], at))
                at = found.end()
            else:
                at = found.end() - 1  # the last space belongs to the trim marker
        self.pieces.append(_Action(tokens, opened))
        return closing.end(), len(closing[0]) == 4

    # Control.

    def body(self, inside: bool) -> tuple[tuple[Piece, ...], _Action | None]:
        """Pieces up to the end of the text, or to the `else` or `end` that closes this body."""
        body: list[Piece] = []
        while self.next < len(self.pieces):
            piece = self.pieces[self.next]
            self.next += 1
            if isinstance(piece, str):
                body.append(piece)
                continue
            significant = [token for token in piece.tokens if token.kind != "space"]
            keyword = significant[0].text if significant and significant[0].kind == "word" else ""
            if keyword in ("else", "end"):
                if not inside:
                    raise self.error(f"{keyword!r} without an if, with or range", piece.at)
                return tuple(body), piece
            body.extend(self._piece(keyword, piece, significant))
        if inside:
            raise self.error("'{{ end }}' is missing", len(self.text))
        return tuple(body), None

    def _piece(
        self, keyword: str, action: _Action, significant: Sequence[TemplateToken]
    ) -> tuple[Piece, ...]:
        if keyword not in _KEYWORDS:
            return (_PipelineParser(self, action.tokens, action.at).whole(),)
        rest = action.tokens[action.tokens.index(significant[0]) + 1 :]
        if keyword in ("if", "with", "range"):
            return (self._branch(keyword, rest, action.at),)
        if keyword in ("break", "continue"):
            if not self.loops or len(significant) > 1:
                raise self.error(f"{keyword!r} may only stand alone inside a range", action.at)
            return (Jump(keyword),)
        return self._named(keyword, rest, action.at)

    def _named(self, keyword: str, tokens: list[TemplateToken], at: int) -> tuple[Piece, ...]:
        """`define "name"`, `block "name" pipeline` and `template "name" [pipeline]`."""
        parser = _PipelineParser(self, tokens, at)
        name = parser.name()
        data = None if parser.is_done() and keyword != "block" else parser.whole()
        if keyword == "define":
            if data is not None or self.depth:
                raise self.error("define takes a name only, and stands at the top of the text", at)
            self._define(name, at)
            return ()
        if keyword == "block":
            self._define(name, at)
        return (Inclusion(name, data),)

    def _define(self, name: str, at: int) -> None:
        self.deeper(at)
        # A defined template sees only its own data: neither the variables nor the loop around it.
        outer = self.variables, self.loops
        self.variables, self.loops = [], 0
        body, closing = self.body(inside=True)
        self.variables, self.loops = outer
        if closing is None or any(token.text == "else" for token in closing.tokens):
            raise self.error("an 'else' without an if, with or range", closing.at if closing else at)
        self.definitions[name] = body
        self.depth -= 1

    def _branch(self, keyword: str, tokens: list[TemplateToken], at: int) -> Branch:
        self.deeper(at)
        known = len(self.variables)
        pipeline = _PipelineParser(self, tokens, at).whole(of_range=keyword == "range")
        self.loops += keyword == "range"
        body, closing = self.body(inside=True)
        self.loops -= keyword == "range"
        otherwise: tuple[Piece, ...] = ()
        assert closing is not None
        significant = [token for token in closing.tokens if token.kind != "space"]
        if significant[0].text == "else" and len(significant) > 1:
            if significant[1].text != keyword or keyword == "range":
                raise self.error("after else only the same keyword may stand", significant[1].at)
            rest = closing.tokens[closing.tokens.index(significant[1]) + 1 :]
            otherwise = (self._branch(keyword, rest, closing.at),)
        elif significant[0].text == "else":
            otherwise, last = self.body(inside=True)
            if last is None or any(token.text == "else" for token in last.tokens):
                raise self.error("a second 'else'", last.at if last else at)
        elif len(significant) > 1:
            raise self.error("nothing may stand after 'end'", significant[1].at)
        self.depth -= 1
        del self.variables[known:]
        return Branch(keyword, pipeline, body, otherwise)

    def deeper(self, at: int) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"nested deeper than {MAX_DEPTH}", at)


class _PipelineParser:
    """Parser of one pipeline; spaces separate operands, a field without space belongs to its predecessor."""

    def __init__(self, parser: _Parser, tokens: list[TemplateToken], at: int):
        self._parser, self._tokens, self._at, self._next = parser, tokens, at, 0

    def whole(self, of_range: bool = False) -> Pipeline:
        pipeline = self._pipeline(2 if of_range else 1)
        if self._next < len(self._tokens):
            raise self._error(f"{self._tokens[self._next].text!r} may not stand here")
        return pipeline

    def name(self) -> str:
        """The quoted name at the start."""
        self._skip_spaces()
        token = self._take()
        if token.kind != "string":
            self._next -= 1
            raise self._error("a name in quotes must stand here")
        text = self._string(token.text)
        self._skip_spaces()
        return text

    def is_done(self) -> bool:
        return self._next >= len(self._tokens)

    def _error(self, message: str) -> TemplateError:
        if self._next < len(self._tokens):
            at = self._tokens[self._next].at
        else:
            at = self._tokens[-1].at + len(self._tokens[-1].text) if self._tokens else self._at
        return self._parser.error(message, at)

    def _peek(self) -> TemplateToken:
        return (
            self._tokens[self._next] if self._next < len(self._tokens) else TemplateToken("end", "", self._at)
        )

    def _take(self) -> TemplateToken:
        token = self._peek()
        self._next += 1
        return token

    def _skip_spaces(self) -> None:
        while self._peek().kind == "space":
            self._next += 1

    def _pipeline(self, most: int) -> Pipeline:
        sets, declares = self._sets(most)
        commands = [self._command()]
        while self._peek().text == "|" and self._peek().kind == "sign":
            self._take()
            commands.append(self._command())
            if not _is_callable(commands[-1][0]):
                raise self._error("after | a function must stand")
        self._parser.variables.extend(sets)
        return Pipeline(tuple(commands), sets, declares)

    def _sets(self, most: int) -> tuple[tuple[str, ...], bool]:
        """`$x :=`, `$x =` or `$i, $x :=` at the start, and whether they are declared."""
        start, names = self._next, []
        while True:
            self._skip_spaces()
            token = self._take()
            names.append(token.text[1:])
            self._skip_spaces()
            sign = self._take()
            if token.kind != "variable" or sign.text not in (",", ":=", "="):
                self._next = start
                return (), True
            if sign.text != ",":
                break
        if len(names) > most:
            raise self._error("too many variables are set")
        if sign.text == "=" and names[0] not in self._parser.variables:
            raise self._error(f"the variable ${names[0]} is not defined")
        return tuple(names), sign.text == ":="

    def _command(self) -> tuple[Operand, ...]:
        operands = []
        self._skip_spaces()
        while self._peek().text not in ("|", ")") or self._peek().kind == "string":
            if self._peek().kind == "end":
                break
            operands.append(self._operand())
            if self._peek().kind not in ("space", "end") and self._peek().text not in ("|", ")"):
                raise self._error("a space is missing")
            self._skip_spaces()
        if not operands:
            raise self._error("a value must stand here")
        if len(operands) > 1 and not _is_callable(operands[0]):
            raise self._error("only a function takes arguments")
        return tuple(operands)

    def _operand(self) -> Operand:
        token = self._take()
        match token.kind, token.text:
            case "string", text:
                return Literal(self._string(text))
            case "number", text:
                return Literal(self._number(text))
            case "character", text:
                return self._character(text)
            case "word", ("true" | "false") as text:
                return Literal(text == "true")
            case "word", "nil":
                return Literal(None)
            case "word", text:
                return self._call(text)
            case "field", text:
                return Path(None, (text[1:], *self._fields()))
            case "variable", text:
                return self._variable(text[1:])
            case "sign", ".":
                return Path(None, ())
            case "sign", "(":
                return self._parenthesis()
        self._next -= 1
        raise self._error(f"{token.text!r} may not stand here" if token.text else "a value must stand here")

    def _string(self, text: str) -> str:
        if text.startswith("`"):
            return text[1:-1]
        try:
            return str(ast.literal_eval(text))
        except (SyntaxError, ValueError):
            raise self._error("a text between quotes cannot be read") from None

    def _number(self, text: str) -> float | int:
        """Go distinguishes integers from floats, and so do its verbs (`%d`)."""
        digits = text.replace("_", "").lower().lstrip("+-")
        try:
            if re.fullmatch(r"0[0-7]+", digits):
                value: float | int = int(digits, 8)
            elif digits.startswith(("0x", "0o", "0b")):
                value = int(digits, 0)
            else:
                value = float(digits) if any(char in digits for char in ".e") else int(digits[:100])
        except ValueError:
            raise self._error(f"{text[:40]!r} is not a number") from None
        return -value if text.startswith("-") else value

    def _character(self, text: str) -> Literal:
        """A character is its code point."""
        value = self._string(text)
        if len(value) != 1:
            raise self._error("between single quotes one character must stand")
        return Literal(ord(value))

    def _call(self, name: str) -> TemplateCall:
        if name not in self._parser.functions:
            self._next -= 1
            raise self._error(f"there is no function {name!r}")
        return TemplateCall(name)

    def _variable(self, name: str) -> Path:
        if name and name not in self._parser.variables:
            self._next -= 1
            raise self._error(f"the variable ${name} is not defined")
        return Path(name, self._fields())

    def _parenthesis(self) -> Path:
        self._parser.deeper(self._at)
        inner = self._pipeline(0)
        if self._take().text != ")":
            self._next -= 1
            raise self._error("')' is missing")
        self._parser.depth -= 1
        return Path(inner, self._fields())

    def _fields(self) -> tuple[str, ...]:
        fields = []
        while self._peek().kind == "field":
            fields.append(self._take().text[1:])
        return tuple(fields)


def _is_callable(operand: Operand) -> bool:
    """Whether an operand takes arguments: a function, or a field that may be a method."""
    return isinstance(operand, TemplateCall) or (isinstance(operand, Path) and bool(operand.fields))


def parse(text: str, functions: frozenset[str], variables: Sequence[str]) -> ParsedTemplate:
    """Parse a template. Raises TemplateError with line and column."""
    if len(text) > MAX_LENGTH:
        raise TemplateError(f"a template may have {MAX_LENGTH} characters", 1, 1)
    parser = _Parser(text, functions, variables=list(variables))
    parser.split()
    body = parser.body(inside=False)[0]
    return ParsedTemplate(body, parser.definitions)
