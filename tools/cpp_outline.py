"""What a C++ source holds: its functions with their lines, its classes with their members.

No parser: it knows brackets, heads and statements, in sources as clang-format leaves them. Macros
are read as they stand, without what they stand for.
"""
import bisect
import dataclasses
import re

# Comments, preprocessor lines, literals (an apostrophe within a number begins none).
NO_CODE = re.compile(r"""
    //[^\n]* | /\*.*?\*/ | ^[ \t]*\#(?:\\\n|[^\n])*
  | (?<!\w)(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)" | "(?:\\.|[^"\\\n])*"
  | (?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'
""", re.VERBOSE | re.DOTALL | re.MULTILINE)
TOKEN = re.compile(r"\w+|\"\"|::|->|==|!=|<=|&&|\|\||[^\s\w]|\n")

CLOSING = {"(": ")", "[": "]", "{": "}"}
CLASS_WORDS = {"class", "struct", "union"}
ACCESS = {"public", "private", "protected"}
# Words that begin what is no data member.
NO_DATA = {"using", "typedef", "friend", "static", "static_assert", "extern"}


@dataclasses.dataclass
class Function:
    name: str  # of a test Suite.Name
    line: int  # where its head begins
    lines: int  # from there to its closing brace, without the rows of tables


@dataclasses.dataclass
class Class:
    name: str
    line: int
    members: int = 0  # of data, those of the object
    is_record: bool = True  # a struct of public data: no functions of its own, no bases


def keep_lines(match):
    text = match.group()
    return ('""' if text[-1] in "\"'" else " ") + "\n" * text.count("\n")


def end_of_angles(words, begin):
    """Behind the '>' that closes the '<' at `begin`; `begin` where that compares."""
    depth, brackets = 0, 0
    for place in range(begin, len(words)):
        word = words[place]
        brackets += (word in CLOSING) - (word in CLOSING.values())
        depth += (word == "<") - (word == ">") if brackets == 0 else 0
        if brackets < 0 or word in (";", "&&", "||"):
            return begin
        if depth == 0 and brackets == 0:
            return place + 1
    return begin


def without_template(words):
    """The words behind template<...>."""
    while words[:2] == ["template", "<"]:
        words = words[max(end_of_angles(words, 1), 2):]
    return words


def outline_of(words):
    """The words outside of all brackets, which stay, empty; without template arguments."""
    words, kept, place, depth = without_template(words), [], 0, 0
    while place < len(words):
        word = words[place]
        if word == "<" and depth == 0 and kept and kept[-1] not in ("operator", ")", "]"):
            place = max(end_of_angles(words, place), place + 1)
            continue
        depth -= word in CLOSING.values()
        if depth == 0:
            kept.append(word)
        depth += word in CLOSING
        place += 1
    return kept


def before_value(outline):
    """The words of a declaration before its first value."""
    ends = [outline.index(mark) for mark in ("=", "{") if mark in outline]
    return outline[:min(ends, default=len(outline))]


def class_place(outline):
    """Where in a head the word class, struct or union begins a definition, or None."""
    for place, word in enumerate(outline):
        if word in ("(", "=", "enum"):
            return None
        if word in CLASS_WORDS:
            behind = outline[place + 1:]
            is_plain = "(" not in behind or behind[behind.index("(") - 1] == "alignas"
            return place if is_plain and "=" not in behind else None
    return None


def opens_body(outline):
    """Whether the brace behind this head opens the body of a function."""
    if "(" not in outline or "=" in outline and "operator" not in outline:
        return False
    behind = outline[outline.index(")") + 1:]
    # Behind the initialisers of a constructor, which have braces themselves.
    return ":" not in behind or outline[-1] in (")", "}")


def is_pointer(words, outline):
    """Whether the parentheses of a declaration are those of a pointer to a function."""
    pairs = set(zip(words, words[1:]))
    return "(" in outline and (("(", "*") in pairs or ("(", "&") in pairs)


def data_members(words):
    """How many data members a statement of a class declares, and whether it declares a function."""
    outline = outline_of(words)
    if not outline or outline[0] in NO_DATA:
        return 0, "(" in before_value(outline) and outline[0] != "static_assert"
    if outline[0] in CLASS_WORDS | {"enum"}:
        if "}" in outline:  # defined, perhaps with a member of the type
            outline = outline[outline.index("}") + 1:]
        elif len(before_value(outline)) < 3:
            outline = []  # declared
        return (1 + outline.count(",") if outline else 0), False
    if "operator" in outline or "(" in before_value(outline) and not is_pointer(words, outline):
        return 0, outline[-1] != "default"
    return 1 + outline.count(","), False


class Outline:
    """Reads one source into `functions` and `classes`."""

    def __init__(self, source):
        self.functions, self.classes = [], []
        self.words, self.lines = [], []
        line = 1
        for word in TOKEN.findall(NO_CODE.sub(keep_lines, source)):
            if word == "\n":
                line += 1
            else:
                self.words.append(word)
                self.lines.append(line)
        self.closing, opened = {}, {"(": [], "{": []}  # by place of the bracket that opens
        for place, word in enumerate(self.words):
            if word in opened:
                opened[word].append(place)
            elif word in ")}" and opened["(" if word == ")" else "{"]:
                self.closing[opened["(" if word == ")" else "{"].pop()] = place
        self.braces = [place for place, word in enumerate(self.words) if word == "{"]
        self.class_words = [place for place, word in enumerate(self.words) if word in CLASS_WORDS]
        self.read_scope(0, len(self.words), None)

    def read_scope(self, begin, end, inside):
        """Reads the declarations of a namespace or, with `inside`, of a class."""
        place = head = begin
        while place < end:
            word = self.words[place]
            if word == "{":
                closed = self.closing.get(place, end)
                if self.read_braces(head, place, closed, inside):
                    head = closed + 1
                place = closed
            elif word == "(":
                place = self.closing.get(place, place)
            elif word == ";":
                if inside:
                    count, is_function = data_members(self.words[head:place])
                    inside.members += count
                    inside.is_record = inside.is_record and not is_function
                head = place + 1
            elif word == ":" and self.words[place - 1] in ACCESS:
                if inside and self.words[place - 1] != "public":
                    inside.is_record = False
                head = place + 1
            place += 1

    def read_braces(self, head, opened, closed, inside):
        """Reads what stands in braces behind a head; returns whether it ends a declaration."""
        words = self.words[head:opened]
        outline = outline_of(words)
        if "namespace" in outline or words == ["extern", '""']:
            self.read_scope(opened + 1, closed, None)
            return True
        place = class_place(outline)
        if place is not None:
            self.read_class(head, opened, outline[place:])
            return False
        self.read_code(opened + 1, closed)
        if not opens_body(outline):
            return False
        if inside:
            inside.is_record = False
        name = outline[outline.index("(") - 1]
        if name.startswith("TEST"):  # TEST(Suite, Name)
            first = words.index("(")
            name = ".".join(words[first + 1:words.index(")", first):2])
        lines = self.rows(head, closed) + 2 - self.table_rows(opened + 1, closed)
        self.functions.append(Function(name, self.lines[head], lines))
        return True

    def rows(self, opened, closed):
        """How many lines stand between two tokens."""
        return self.lines[min(closed, len(self.lines) - 1)] - self.lines[opened] - 1

    def table_rows(self, begin, end):
        """The lines within the values of a body that begin with a brace: data, and no code."""
        rows = 0
        for opened in self.braces[bisect.bisect_left(self.braces, begin):]:
            if opened >= end:
                break
            if opened >= begin and self.words[opened - 1] in ("=", "return"):
                begin = self.closing.get(opened, end)
                rows += max(0, self.rows(opened, begin))
        return rows

    def read_class(self, head, opened, outline):
        """Reads a class whose head, from the word class on, has this outline."""
        bases = outline.index(":") if ":" in outline else len(outline)
        names = [word for word in outline[1:bases]
                 if word.isidentifier() and word not in ("final", "alignas")]
        found = Class(names[-1] if names else "(unnamed)", self.lines[head],
                      is_record=outline[0] == "struct" and bases == len(outline))
        self.classes.append(found)
        self.read_scope(opened + 1, self.closing.get(opened, len(self.words)), found)

    def read_code(self, begin, end):
        """Finds the classes within a body or an initialiser."""
        index = bisect.bisect_left(self.class_words, begin)
        while index < len(self.class_words) and self.class_words[index] < end:
            head = opened = self.class_words[index]
            while opened < end and self.words[opened] not in ("{", ";", "(", ")", "=", "<"):
                opened += 1
            if opened < end and self.words[opened] == "{" and self.words[head - 1] != "enum":
                self.read_class(head, opened, outline_of(self.words[head:opened]))
                begin = self.closing.get(opened, end)
            index = bisect.bisect_left(self.class_words, max(begin, head + 1))
