"""A family from outside: importing it makes it known."""

from hf_structure import Family, register_family

FAMILY = Family(
    model_type="toy",
    package=__name__,
    config_class="configuration_toy.ToyConfig",
    classes={"modeling_toy.ToyForParsing": ("AutoModelForDependencyParsing",)},
    title="Toy: a parser of one table",
    citation="Nobody (2026): Toys.",
    uses="tests",
    limits="anything else",
    tags=("dependency-parsing",),
)
register_family(FAMILY)
