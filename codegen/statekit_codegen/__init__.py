"""statekit_codegen: from a YAML schema to a typed adapter, in five steps and one direction.

    project   which schemas, which output folder
    load      a file to classes, with every problem of the file at its place
    check     what a class cannot say: references, grammars, names
    resolve   a schema to the `ModelSpec` that runtime, review and planning share
    render    a model to the text of a module
    write     texts to files, all or none

`rules` holds the opinions that `statekit vet` reports, `review` the tables for reviewers,
`reference` the pages generated from these classes, `commands` the command line.
"""
