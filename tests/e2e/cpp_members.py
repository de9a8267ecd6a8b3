"""The members of the classes in C++ sources that hold any number of things: what a compiler would tell, as far as this
code's style allows to read it without one."""

import re
from pathlib import Path

# Of the standard library and Boost; an array has a size.
LIBRARY = (r"(?:std::(?:vector|deque|list|map|multimap|set|multiset|unordered_map|unordered_set|priority_queue|queue)"
           r"|(?:boost::)?unordered_(?:flat_|node_)?(?:map|set)|boost::container::\w+|boost::multi_index_container"
           r"|boost::intrusive::(?:list|set|slist)|boost::circular_buffer)\s*<")
# Our own containers. Their content is charged to the account of the class that has them as members.
OURS = r"(?:Wheel|StackedWheel|FairQueue|FairOrder|TurnQueue|RecentCounts|Mailbox|StampSet|QueuedBodies|PopulatedArray)\b"
POINTED_TO = re.compile(r"[*&]\s*(?:const\s+)?\w+\s*(?:=|\{|$)")


def stripped(text):
    """Without comments, and with the contents of strings and characters left out."""
    text = re.sub(r'R"\((?:.|\n)*?\)"', '""', text)
    text = re.sub(r"(?<=\d)'(?=\d)", "", text)  # 10'000
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#[^\n]*(?:\\\n[^\n]*)*',
                         re.DOTALL | re.MULTILINE)
    return pattern.sub(lambda found: '""' if found[0][0] == '"' else "0" if found[0][0] == "'" else " ", text)


def balanced(text):
    """Without what stands between < and >, and ( and ), whatever is nested there."""
    while True:
        shorter = re.sub(r"<[^<>()]*>|\([^<>()]*\)", "", text)
        if shorter == text:
            return text
        text = shorter


def is_part_of_one(kind):
    """Is it a type within a container, such as an iterator?"""
    return re.match(r"[\w:]*?(?:\w+_)*(?:vector|deque|list|map|set|queue|Wheel|FairQueue|FairOrder|RecentCounts)::",
                    balanced(kind))


class Scope:
    def __init__(self, kind, name=""):
        self.kind, self.name = kind, name


def scope_of(head):
    """What begins with this head and a brace."""
    head = head.strip()
    bare = balanced(re.sub(r"^template\s*<.*?>\s*(?=class|struct)", "", head, flags=re.DOTALL))
    if re.search(r"\bnamespace\b", bare):
        return Scope("namespace")
    if re.search(r"\benum\b", bare):
        return Scope("other")
    found = re.match(r"(?:typedef\s+)?(?:class|struct|union)\s+(?:\[\[[^\]]*\]\]\s*)*((?:\w+(?:::)?)+)(?:\s+final)?\s*(?::[^:].*)?$",
                     bare, re.DOTALL)
    if found:
        return Scope("class", found[1])
    return Scope("other")


def statements(text):
    """(names of the classes around, the statement) for each statement in a class or a namespace."""
    scopes, begun = [], [""]
    for part in re.split(r"([{};])", text):
        if part == "{":
            scope = scope_of(begun[-1]) if all(each.kind != "other" for each in scopes) else Scope("other")
            scopes.append(scope)
            if scope.kind == "other":
                begun.append("")  # an initializer or a body: the statement may go on behind it
            else:
                begun[-1] = ""
                begun.append("")
        elif part == "}":
            if not scopes:
                continue
            ended = scopes.pop()
            begun.pop()
            if ended.kind == "other" and all(each.kind != "other" for each in scopes):
                begun[-1] += "{}"
                if re.search(r"\)\s*(?:const|noexcept|override|final|->[^{}]*|\s)*\{\}$", begun[-1]) or re.search(
                        r"\)\s*(?:noexcept)?\s*:[^:].*\{\}$", begun[-1], re.DOTALL):
                    begun[-1] = ""  # the body of a function
            elif ended.kind != "other":
                begun[-1] = ""
        elif part == ";":
            if all(each.kind != "other" for each in scopes):
                yield [each.name for each in scopes if each.kind == "class"], begun[-1].strip()
            begun[-1] = ""
        else:
            begun[-1] += re.sub(r"\b(?:public|private|protected)\s*:(?!:)", "", part)


class Aliases:
    """Names that stand for containers: those of a namespace everywhere, those of a class in its own files, and
    elsewhere with the class's name before them."""

    def __init__(self, texts):
        self.everywhere, self.own = set(), {}
        before = None
        while before != (size := len(self.everywhere) + sum(map(len, self.own.values()))):
            before = size
            for path, text in texts.items():
                for classes, statement in statements(text):
                    found = re.match(r"using\s+(\w+)\s*=\s*(?:typename\s+)?(.+)$", statement, re.DOTALL)
                    if not found or is_part_of_one(found[2]):
                        continue
                    if self.pattern(path).match(found[2]):
                        (self.own.setdefault(path.with_suffix(""), set()) if classes else self.everywhere).add(found[1])

    def pattern(self, path):
        here = self.everywhere | self.own.get(path.with_suffix(""), set())
        everybody = set().union(*self.own.values()) if self.own else set()
        names = "".join(rf"|{name}\b(?!::)" for name in sorted(here))
        qualified = "".join(rf"|(?:\w+::)+{name}\b(?!::)" for name in sorted(everybody))
        return re.compile(rf"(?:const\s+)?(?:{LIBRARY}|{OURS}{names}{qualified})")


def sources(folder):
    return sorted(path for kind in ("*.h", "*.cpp") for path in Path(folder).rglob(kind))


def container_members(folder):
    """`Class::member` of all containers, with the files that have one; `::name` of variables."""
    texts = {path: stripped(path.read_text()) for path in sources(folder)}
    aliases, found = Aliases(texts), {}
    for path, text in texts.items():
        pattern = aliases.pattern(path)
        for classes, statement in statements(text):
            bare = re.sub(r"^(?:template\s*<[^;]*?>\s*|\[\[\w+\]\]\s*|mutable\s+|static\s+|inline\s+|thread_local\s+|const\s+)*", "",
                          statement)
            if re.match(r"(?:using|friend|typedef|constexpr|extern|return|namespace|class|struct)\b", bare):
                continue
            wrapped = re.sub(r"^std::(?:optional|unique_ptr|shared_ptr|array|pair)\s*<\s*(?:const\s+)?", "", bare)
            if is_part_of_one(bare) or not (pattern.match(bare) or pattern.match(wrapped)):
                continue
            plain = balanced(bare)
            plain = re.split(r"=|\{", plain)[0].strip()
            behind_arguments = r"\)[\s&]*(?:(?:const|noexcept|override|final)[\s&]*)*$"
            if "(" in balanced(statement.split("=")[0]) or re.search(behind_arguments, bare.split("=")[0].strip()):
                continue  # a function
            if POINTED_TO.search(plain) or not re.search(r"\w\s+\w+(?:\[\w*\])*$|\w+\s*$", plain):
                continue
            for name in plain.split(",") if "," in plain else [plain]:
                name = re.sub(r"\[.*", "", name.strip()).split()[-1]
                found.setdefault("::".join([*classes, name]) if classes else f"::{name}", set()).add(
                    str(path.relative_to(folder)))
    return found
