"""Images: a tree of values as storages and a recipe, and back, bit for bit.

taking   a picture of a live tree: its storages, and the recipe
recipe   everything but the bytes, as plain data, and how the tree is built again
views    tensors and arrays as views of storages;  generators: random ones;  plain: all other values
memory   ranges of memory, and which of them are one storage
check    a recipe from elsewhere, before it is built;  grammar: the closed sets it is written in
"""
