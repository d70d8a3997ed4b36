"""Reading: each idiom of hand-rolled state gives the fact that a person would read in it."""

from __future__ import annotations

import textwrap

import pytest

from statekit_codegen.reading.annotations import known_text
from statekit_codegen.reading.facts import NOTHING
from tests.codegen.scaffold.sources import attribute, in_class, read

_START = "def __init__(self, size: int = 3, depth=2, device=None):\n"


def init(*lines: str, more: str = "") -> str:
    """A class body whose constructor has these lines, and further methods."""
    return _START + textwrap.indent("\n".join(lines), "    ") + "\n\n" + textwrap.dedent(more)


TYPES = {
    "self.x: int = 0": "int",
    "self.x = 0": "int",
    "self.x = -1": "int",
    "self.x = 0.5": "float",
    "self.x = True": "bool",
    "self.x = 'a'": "str",
    "self.x = b'a'": "bytes",
    "self.x = f'{size}'": "str",
    "self.x = None": "None",
    "self.x = size": "int",
    "self.x = size > 2": "bool",
    "self.x = not size": "bool",
    "self.x = size + 1": "int",
    "self.x = size / 2": "float",
    "self.x = len([])": "int",
    "self.x = int(device)": "int",
    "self.x = LIMIT": "int",
    "self.x = []": "list[None]",
    "self.x = {}": "dict[None, None]",
    "self.x = ()": "tuple[None, ...]",
    "self.x = set()": "set[None]",
    "self.x = deque()": "deque[None]",
    "self.x = collections.deque(maxlen=2)": "deque[None]",
    "self.x = OrderedDict()": "dict[None, None]",
    "self.x = defaultdict(list)": "dict[None, list[None]]",
    "self.x = [0, 1]": "list[int]",
    "self.x = [None] * depth": "list[None]",
    "self.x = [0 for _ in range(3)]": "list[int]",
    "self.x = {i: 0 for i in range(3)}": "dict[None, int]",
    "self.x = (0, 'a')": "tuple[int, str]",
    "self.x = {'a': 1}": "dict[str, int]",
    "self.x = torch.zeros(2)": "torch.Tensor",
    "self.x = th.empty((2, 3))": "torch.Tensor",
    "self.x = torch.zeros(2).to(device)": "torch.Tensor",
    "self.x = torch.zeros_like(device)": "torch.Tensor",
    "self.x = device.detach()": "torch.Tensor",
    "self.x = [torch.zeros(2) for _ in range(depth)]": "list[torch.Tensor]",
    "self.x = (torch.zeros(1), torch.zeros(1))": "tuple[torch.Tensor, torch.Tensor]",
    "self.x = np.zeros(3)": "np.ndarray",
    "self.x = torch.zeros(2).numpy()": "np.ndarray",
    "self.x = torch.Generator()": "torch.Generator",
    "self.x = None if size else torch.zeros(2)": "torch.Tensor | None",
    "self.x = device or []": "list[None]",
    "self.x = copy.deepcopy([0])": "list[int]",
    "self.x: Optional[Tensor] = None": "torch.Tensor | None",
    "self.x: Tensor | None = None": "torch.Tensor | None",
    "self.x: 'Tensor | None' = None": "torch.Tensor | None",
    "self.x: Union[int, str] = 0": "int | str",
    "self.x: List[Tensor] = []": "list[torch.Tensor]",
    "self.x: list = []": "list[None]",
    "self.x: Sequence[int] = []": "list[int]",
    "self.x: Dict[int, KV] = {}": "dict[int, tuple[torch.Tensor, torch.Tensor]]",
    "self.x: Tuple[int, ...] = ()": "tuple[int, ...]",
    "self.x: Literal['a', 'b'] = 'a'": "str",
    "self.x: npt.NDArray[np.uint8] | None = None": "np.ndarray | None",
    "self.x: Any = None": "None",
    "self.x: tuple[()] | int = 0": "int",
    "self.x: Optional[()] = None": "None",
    "self.x: dict[str, Any] = {}": "dict[str, None]",
    "self.x: Foreign | None = None": "None",
    "self.y = 0; self.x = self.y": "int",
    "made = torch.zeros(2); self.x = made": "torch.Tensor",
    "made: Tensor = device; self.x = made": "torch.Tensor",
    "self.x = self.y = 0": "int",
    "self.y, self.x = 0, 'a'": "str",
    "self.y, (self.x, self.z) = 0, ('a', 1)": "str",
    "if (made := 3): self.x = made": "int",
}


@pytest.mark.parametrize(("line", "wanted"), TYPES.items(), ids=TYPES)
def test_type_when_a_line_assigns_then_it_is_read_from_annotation_or_value(
    line: str, wanted: str
) -> None:
    """The type of an attribute is what its annotation says, else what is assigned."""
    assert known_text(attribute(init(line), "x").type) == wanted


SETS = {
    "plain": "self.x = 1",
    "annotated": "self.x: int = 1",
    "chained": "self.a = self.x = 1",
    "tuple": "self.a, self.x = 0, 1",
    "starred": "self.a, *self.x = [0, 1]",
    "setattr": "setattr(self, 'x', 1)",
    "object setattr": "object.__setattr__(self, 'x', 1)",
    "own setattr": "self.__setattr__('x', 1)",
    "dict update": "self.__dict__.update(x=1)",
    "dict update of a dict": "self.__dict__.update({'x': 1})",
    "dict item": "self.__dict__['x'] = 1",
    "vars update": "vars(self).update(x=1)",
    "for target": "for self.x in [1]: pass",
    "with target": "with open('f') as self.x: pass",
    "loop over names": "for name in ('w', 'x'): setattr(self, name, 1)",
    "if": "if size:\n    self.x = 1",
    "try": "try:\n    self.x = 1\nfinally:\n    pass",
    "except": "try:\n    pass\nexcept E:\n    self.x = 1",
    "while": "while size:\n    self.x = 1",
    "match": "match size:\n    case 1:\n        self.x = 1",
    "alias of self": "me = self\nme.x = 1",
    "helper": "self._more()",
    "helper of the module": "fill(self)",
    "helper by keyword": "fill(state=self)",
    "augmented": "self.x += 1",
    "nested function": "def later():\n    self.x = 1\nlater()",
    "named base": "Base.__init__(self)",
    "super": "super().__init__()",
}
_AFTER = """
def fill(state):
    state.x = 1
"""


@pytest.mark.parametrize("lines", SETS.values(), ids=SETS)
def test_attributes_when_set_in_any_way_then_they_are_found(lines: str) -> None:
    """Every way to set an attribute is seen, through helpers and bases too."""
    body = init(lines, more="def _more(self):\n    self.x = 1\n")
    base = (
        "class Base:\n    def __init__(self):\n        self.from_base = 1\n        self.x = 1\n\n\n"
    )
    source = in_class(body, after=_AFTER, head=base + "class State(Base):")
    if "super" in lines or "Base." in lines:
        assert "from_base" in read(source).attributes
    found = read(source).attributes["x"]
    assert found.site.line > 18


def test_attributes_when_another_function_is_given_the_state_then_it_counts() -> None:
    """A function of the module, or a method of another class, may be annotated with the class."""
    after = """
    def advance(state: State, by: "int") -> None:
        state.cursor = state.cursor + by

    class Pipeline:
        def run(self, state: "State | None") -> None:
            state.last = torch.zeros(1)
    """
    found = read(in_class(init("self.cursor = 0"), after=after)).attributes
    assert set(found) == {"cursor", "last"}
    assert found["last"].type.text == "torch.Tensor"


DEFAULTS: dict[str, object] = {
    "self.x = 0": 0,
    "self.x = 0\nself.x = 1": 1,
    "self.x = None": None,
    "self.x = []": [],
    "self.x = list()": [],
    "self.x = deque(maxlen=2)": [],
    "self.x = deque([], 2)": [],
    "self.x = set()": [],
    "self.x = {}": {},
    "self.x = dict()": {},
    "self.x = -2.5": -2.5,
    "self.reset()": 7,
    "self.x = 0\nself.reset()": 7,
    "self.reset()\nself.x = 1": 1,
    "self._more(3)": 4,
}


@pytest.mark.parametrize(("lines", "wanted"), DEFAULTS.items(), ids=DEFAULTS)
def test_default_when_the_constructor_ends_then_it_is_the_last_that_was_assigned(
    lines: str, wanted: object
) -> None:
    """Defaults come from the constructor and what it calls, in order."""
    more = "def reset(self):\n    self.x = 7\n\ndef _more(self, by):\n    self.x = 4\n"
    default = attribute(init(lines, more=more), "x").default
    assert default is not None
    assert default.default == wanted
    assert type(default.default) is type(wanted)


@pytest.mark.parametrize(
    "line", ["self.x = torch.zeros(2)", "self.x = size", "self.x = make()", "self.x = [0]"]
)
def test_default_when_it_is_no_literal_then_its_source_is_kept(line: str) -> None:
    """What is no plain literal is told apart, with what the source says."""
    default = attribute(init(line), "x").default
    assert default is not None
    assert default.default is NOTHING
    assert default.source == line.partition(" = ")[2]


RINGS = {
    "deque": ("self.x = deque(maxlen=4)", "self.x.append(v)", 4, None),
    "deque of a constant": ("self.x = deque(maxlen=LIMIT)", "self.x.append(v)", 8, None),
    "deque of the class": ("self.x = deque(maxlen=self.N)", "self.x.append(v)", 6, None),
    "deque of an argument": ("self.x = deque(maxlen=size)", "self.x.append(v)", 3, None),
    "deque positional": ("self.x = deque([], 4)", "self.x.append(v)", 4, None),
    "slice": ("self.x = []", "self.x.append(v); self.x = self.x[-4:]", 4, None),
    "slice of a sum": ("self.x = []", "self.x = (self.x + [v])[-4:]", 4, None),
    "slice of a display": ("self.x = []", "self.x = [*self.x, v][-4:]", 4, None),
    "del": ("self.x = []", "self.x.append(v); del self.x[:-4]", 4, None),
    "del of a length": ("self.x = []", "self.x.append(v); del self.x[:len(self.x) - 4]", 4, None),
    "pop": ("self.x = []", "self.x.append(v)\nif len(self.x) > 4: self.x.pop(0)", 4, None),
    "pop before": ("self.x = []", "if len(self.x) >= 4: self.x.pop(0)\nself.x.append(v)", 4, None),
    "pop at": ("self.x = []", "self.x.append(v)\nif len(self.x) >= 4: self.x.pop(0)", 3, None),
    "pop reversed": ("self.x = []", "self.x.append(v)\nif 4 < len(self.x): self.x.pop(0)", 4, None),
    "popleft": ("self.x = deque()", "self.x.append(v)\nwhile len(self.x) > 4: self.x.popleft()",
                4, None),
    "del first": ("self.x = []", "self.x.append(v)\nif len(self.x) > 4: del self.x[0]", 4, None),
    "tail": ("self.x = []", "self.x.append(v)\nif len(self.x) > 4: self.x = self.x[1:]", 4, None),
    "local": ("self.x = []", "keep = 4\nself.x = self.x[-keep:]", 4, None),
    "cat": ("self.x = None", "self.x = torch.cat([self.x, v], dim=2)[:, :, -4:]", 4, 2),
    "cat via a name": ("self.x = None",
                       "y = torch.cat([self.x, v], 1)\nself.x = y[:, -self.N:]", 6, 1),
    "cat if": ("self.x = None",
               "self.x = v if self.x is None else torch.cat((self.x, v), dim=1)[:, -size:]", 3, 1),
    "numpy": ("self.x = np.zeros((0, 3))", "self.x = np.concatenate([self.x, v])[-4:]", 4, 0),
}  # fmt: skip


@pytest.mark.parametrize(("start", "push", "number", "axis"), RINGS.values(), ids=RINGS)
def test_bound_when_an_idiom_keeps_the_newest_then_it_is_that_number(
    start: str, push: str, number: int, axis: int | None
) -> None:
    """Each way to keep the newest gives how many stay, and the axis they are counted along."""
    push = push.replace("size", "self.size")
    more = "def push(self, v: Tensor):\n" + textwrap.indent(push, "    ") + "\n"
    found = attribute("N = 6\n\n" + init("self.size = size", start, more=more), "x").bound
    assert found is not None
    assert (found.number, found.axis) == (number, axis)


NO_RINGS = {
    "unguarded": "self.x.append(v)\nself.x.pop(0)",
    "other length": "if len(self.y) > 4: self.x.pop(0)",
    "newest": "if len(self.x) > 4: self.x.pop()",
    "head": "self.x = self.x[:4]",
    "step": "self.x = self.x[-4::2]",
    "unknown": "self.x = self.x[-v:]",
    "read": "return self.x[-4:]",
}


@pytest.mark.parametrize("push", NO_RINGS.values(), ids=NO_RINGS)
def test_bound_when_no_idiom_keeps_the_newest_then_no_number_is_made_up(push: str) -> None:
    """What merely looks like a ring gives no number."""
    more = "def push(self, v):\n" + textwrap.indent(push, "    ") + "\n"
    found = attribute(init("self.x = []", "self.y = []", more=more), "x").bound
    assert found is None or found.number is None


APPENDS = {
    "append": ("self.x = []", "self.x.append(v)", "torch.Tensor"),
    "alias": ("self.x = []", "x = self.x; x.append(v)", "torch.Tensor"),
    "extend": ("self.x = []", "self.x.extend([v, v])", "torch.Tensor"),
    "extend by a generator": (
        "self.x = []",
        "self.x.extend(p.detach() for p in v)",
        "torch.Tensor",
    ),
    "plus": ("self.x = []", "self.x += [v]", "torch.Tensor"),
    "sum": ("self.x = []", "self.x = self.x + [v]", "torch.Tensor"),
    "display": ("self.x = []", "self.x = [*self.x, v]", "torch.Tensor"),
    "insert": ("self.x = []", "self.x.insert(0, v)", "torch.Tensor"),
    "number": ("self.x = []", "self.x.append(1)", "int"),
    "pair": ("self.x = []", "self.x.append((v, 1))", "tuple[torch.Tensor, int]"),
}


@pytest.mark.parametrize(("start", "push", "item"), APPENDS.values(), ids=APPENDS)
def test_append_when_items_are_added_then_their_type_is_known(
    start: str, push: str, item: str
) -> None:
    """The type of what is appended is read from the argument."""
    more = f"def push(self, v: Tensor):\n    {push}\n"
    found = attribute(init(start, more=more), "x")
    assert found.item is not None
    assert found.item.text == item


@pytest.mark.parametrize(
    ("value", "device", "dtype", "steps"),
    [
        ("v.detach().cpu()", "cpu", None, ("detach", "move")),
        ("v.cpu()", "cpu", None, ("move",)),
        ("v.to('cpu')", "cpu", None, ("move",)),
        ("v.to(torch.device('cpu'))", "cpu", None, ("move",)),
        ("v.to('cuda:1', dtype=torch.float16)", "cuda:1", "float16", ("move",)),
        ("v.to(device='cpu')", "cpu", None, ("move",)),
        ("v.to(torch.bfloat16)", None, "bfloat16", ()),
        ("v.half()", None, "float16", ()),
        ("v.cuda()", "cuda", None, ()),
        ("v.to(self.device)", None, None, ()),
        ("v.transpose(1, 2).detach()", None, None, ("detach",)),
    ],
)
def test_append_when_a_tensor_is_moved_first_then_the_steps_are_known(
    value: str, device: str | None, dtype: str | None, steps: tuple[str, ...]
) -> None:
    """What happens to an item before it is appended is read in order."""
    more = f"def push(self, v: Tensor):\n    self.x.append({value})\n"
    found = attribute(init("self.x = []", more=more), "x")
    assert (found.device, found.dtype, found.steps) == (device, dtype, steps)


@pytest.mark.parametrize(
    ("value", "dtype", "shape", "device"),
    [
        ("torch.zeros(1, 16, dtype=torch.bfloat16)", "bfloat16", ("1", "16"), None),
        ("torch.empty((2, LIMIT), device='cpu')", None, ("2", "8"), "cpu"),
        ("torch.full((2,), 0, dtype=th.long)", "int64", ("2",), None),
        ("torch.randn(size=(3,))", None, ("3",), None),
        ("torch.zeros(1, size)", None, None, None),
        ("torch.zeros(2, dtype=self.dtype)", None, ("2",), None),
        ("np.zeros((4, 8), np.uint8)", "uint8", ("4", "8"), "cpu"),
        ("np.zeros(4, dtype='float32')", "float32", ("4",), "cpu"),
    ],
)
def test_memory_when_a_factory_makes_it_then_dtype_shape_and_device_are_read(
    value: str, dtype: str | None, shape: tuple[str, ...] | None, device: str | None
) -> None:
    """Factories say dtype, shape and device; what they do not say stays unknown."""
    found = attribute(init(f"self.x = {value}"), "x")
    assert (found.dtype, found.shape, found.device) == (dtype, shape, device)


CHANGES = {
    "self.t.copy_(v)": "write",
    "self.t.zero_()": "write",
    "self.t[0] = v": "write",
    "self.t[:, 1:2] = v": "write",
    "self.t[...] = v": "write",
    "self.t += v": "write",
    "self.t.data.copy_(v)": "write",
    "self.l[0].copy_(v)": "write",
    "self.l[0][:, 1:] = v": "write",
    "for t in self.l: t.zero_()": "write",
    "for i, t in enumerate(self.l): t.zero_()": "write",
    "torch.add(v, v, out=self.t)": "write",
    "np.copyto(self.t, v)": "write",
    "view = self.t[:, 2]; view.fill_(1)": "write",
    "self.d['k'].add_(v)": "write",
    "self.l[0] = v": "entry",
    "self.d['k'] = v": "entry",
    "self.d.update(k=v)": "entry",
    "self.d.pop('k')": "entry",
    "self.d.setdefault('k', v)": "entry",
    "self.l[1:2] = [v]": "entry",
    "self.l.pop()": "entry",
    "self.s.add(1)": "entry",
    "self.l.clear()": "clear",
    "self.l[:] = []": "clear",
    "del self.l[:]": "clear",
    "del self.l": "delete",
    "delattr(self, 'l')": "delete",
    "del self.d['k']": "entry",
    "self.c += 1": "augment",
}


@pytest.mark.parametrize(("line", "kind"), CHANGES.items(), ids=CHANGES)
def test_change_when_a_line_changes_a_value_then_its_kind_is_known(line: str, kind: str) -> None:
    """Writing into a tensor, replacing entries and emptying are told apart."""
    more = "def step(self, v: Tensor):\n" + textwrap.indent(line, "    ") + "\n"
    start = [
        "self.t = torch.zeros(2)", "self.l: list[Tensor] = []", "self.d: dict[str, Tensor] = {}",
        "self.s: set[int] = set()", "self.c = 0",
    ]  # fmt: skip
    found = read(in_class(init(*start, more=more))).attributes
    kinds = {
        event.kind
        for one in found.values()
        for event in one.events
        if event.site.function == "step" and event.kind != "read"
    }
    assert kinds == {kind}


@pytest.mark.parametrize(
    "line",
    [
        "x = self.l[:2]; x.append(v)",
        "x = list(self.l); x.append(v)",
        "x = self.l[-2:]; x[0] = v",
        "return torch.cat(self.l)",
        "self.other(self.l)",
        "if self.l: pass",
        "self.l == []",
        "v.copy_(self.t)",
    ],
)
def test_change_when_only_a_copy_changes_then_the_value_does_not(line: str) -> None:
    """A slice of a list is another list, and reading is no change."""
    more = f"def step(self, v: Tensor):\n    {line}\n\ndef other(self, l):\n    pass\n"
    body = init("self.l: list[Tensor] = []", "self.t = torch.zeros(2)", more=more)
    found = read(in_class(body)).attributes
    assert {e.kind for one in found.values() for e in one.events} <= {"set", "read"}


@pytest.mark.parametrize(
    "line",
    [
        "setattr(self, key, v)",
        "self.__dict__.update(v)",
        "self.__dict__[key] = v",
        "vars(self).update(**v)",
        "for name in v: setattr(self, name, None)",
    ],
)
def test_blind_spot_when_a_name_is_computed_then_the_line_is_reported(line: str) -> None:
    """A line that sets attributes by computed names is no fact about any, but is not silent."""
    more = f"def load(self, key, v):\n    {line}\n"
    found = read(in_class(init("self.x = 0", more=more)))
    assert [spot.site.function for spot in found.blind] == ["load"]
    assert set(found.attributes) == {"x"}


FIELDS = {
    "@dataclasses.dataclass\nclass State:": """
        a: int = 0
        b: list[Tensor] = dataclasses.field(default_factory=list)
        c: Optional[Tensor] = None
        d: dict[str, int] = dataclasses.field(default_factory=lambda: {})
        e: str = dataclasses.field(default='x', init=False)
        K: ClassVar[int] = 3
        f: float
    """,
    "import attrs\n@attrs.define\nclass State:": """
        a: int = 0
        b: list[Tensor] = attrs.field(factory=list)
        c: Optional[Tensor] = attrs.field(default=None)
        d: dict[str, int] = attrs.Factory(dict)
        e: str = attrs.field(default='x', init=False)
        K: ClassVar[int] = 3
        f: float
    """,
    "import attr\n@attr.s(auto_attribs=True)\nclass State:": """
        a = attr.ib(default=0)
        b = attr.ib(factory=list, type=List[Tensor])
        c: Optional[Tensor] = attr.ib(default=None)
        d: dict[str, int] = attr.ib(default=attr.Factory(dict))
        e: str = 'x'
        K: ClassVar[int] = 3
        f: float = attr.ib()
    """,
}


@pytest.mark.parametrize(("head", "body"), FIELDS.items(), ids=["dataclass", "attrs", "attr.s"])
def test_fields_when_the_class_declares_them_then_they_are_attributes(head: str, body: str) -> None:
    """Dataclasses and attrs classes give attributes, with types and defaults, and constants."""
    found = read(in_class(body, head=head))
    defaults = {n: None if a.default is None else a.default.default for n, a in
                found.attributes.items()}  # fmt: skip
    assert defaults == {"a": 0, "b": [], "c": None, "d": {}, "e": "x", "f": None}
    types = {name: known_text(one.type) for name, one in found.attributes.items()}
    assert types["b"] == "list[torch.Tensor]"
    assert types["c"] == "torch.Tensor | None"
    assert found.attributes["f"].parameter == "f"
    assert {name: one.value for name, one in found.constants.items()} == {"K": 3}


def test_fields_when_a_class_has_slots_then_the_unset_ones_are_attributes_too() -> None:
    """A slot that no line sets is an attribute of which nothing is known."""
    found = read(in_class("__slots__ = ('a', '_b')\n\n" + init("self.a = 0"))).attributes
    assert set(found) == {"a", "_b"}
    assert found["_b"].default is None
    assert found["_b"].type.text == "?"


def test_fields_when_a_class_level_value_is_set_on_instances_then_it_is_a_default() -> None:
    """A class-level value is the default of an attribute, or a constant where nobody sets it."""
    body = "count = 0\nNAME = 'x'\nWINDOW = 4\n\ndef step(self):\n    self.count += 1\n"
    found = read(in_class(body))
    assert set(found.attributes) == {"count"}
    assert found.attributes["count"].default is not None
    assert found.attributes["count"].default.default == 0
    assert list(found.constants) == ["WINDOW"]


def test_table_when_a_dict_of_the_module_is_keyed_by_session_then_its_entry_is_a_value() -> None:
    """A module-level dict by session holds a value of the session, with its default and resets."""
    head = "_LATENTS: dict[str, Tensor] = {}\n_LOGS = {}\nOTHER = {}\n\n\nclass State:"
    more = """
    def step(self, session_id: str, v: Tensor):
        _LATENTS[session_id] = v
        _LOGS.setdefault(self.session_id, []).append(1)
        OTHER['a'] = v

    def reset(self, session_id: str):
        self.x = 0
        _LATENTS.pop(session_id, None)
        del _LOGS[session_id]
    """
    found = read(in_class(init("self.x = 0", more=more), head=head))
    by_table = {one.table: one for one in found.attributes.values() if one.table}
    assert set(by_table) == {"_LATENTS", "_LOGS"}
    assert by_table["_LATENTS"].type.text == "torch.Tensor"
    assert by_table["_LOGS"].default is not None
    assert by_table["_LOGS"].default.default == []
    assert [event.kind for event in by_table["_LOGS"].of_kind("append", "delete")] == [
        "append", "delete",
    ]  # fmt: skip
    assert len(found.clearings[0].cleared) == 3


def test_doc_when_a_comment_or_text_stands_beside_a_value_then_it_is_kept() -> None:
    """What an author wrote beside an attribute is what it is documented as."""
    lines = [
        "self.a = 0  # frames so far", "# the newest", "# latents", "self.b = None",
        "self.c = 0", "'Where the next block starts.'", "self.d = 0  # noqa: E501",
    ]  # fmt: skip
    found = read(in_class(init(*lines))).attributes
    docs = {name: one.doc for name, one in found.items()}
    assert docs == {
        "a": "frames so far", "b": "the newest latents", "c": "Where the next block starts.",
        "d": "",
    }  # fmt: skip


def test_helpers_when_two_call_each_other_then_reading_ends() -> None:
    """Helpers that call each other are followed once."""
    more = (
        "def a(self):\n    self.x = 1\n    self.b()\n\ndef b(self):\n    self.y = 2\n    self.a()\n"
    )
    assert set(read(in_class(init("self.a()", more=more))).attributes) == {"x", "y"}


def test_bases_when_one_is_in_another_file_then_it_is_named() -> None:
    """A base that the file does not have is not read, and that is said."""
    source = in_class(init("self.x = 0"), head="from m import Other\n\n\nclass State(Other, KV):")
    assert read(source).unread == ("Other", "KV")


@pytest.mark.parametrize(
    "bound", ["config.size", "self.config.size", "other", "cap", "Other.N", "self.n + 1", "n"]
)
def test_bound_when_its_name_is_of_something_else_then_no_number_is_taken(bound: str) -> None:
    """An argument of another method, or an attribute of another object, is no constant of ours."""
    more = f"def push(self, v, cap, n):\n    self.x = self.x[-({bound}):]\n"
    body = "N = 4\n\n" + init("self.cap = 3", "self.n = 5", "self.x = []", more=more)
    found = attribute(body, "x").bound
    assert found is not None
    assert (found.number, found.name) == (None, None)
    assert found.text == bound


def test_buffers_when_registered_with_a_module_then_they_are_attributes() -> None:
    """`register_buffer` sets an attribute by its name."""
    lines = ["self.register_buffer('x', torch.zeros(2), persistent=False)"]
    found = attribute(init(*lines), "x")
    assert found.type.text == "torch.Tensor"
    assert found.shape == ("2",)
