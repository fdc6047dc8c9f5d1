"""The rules for paths of znodes.

Mirrors `org.apache.zookeeper.common.PathUtils.validatePath`.
"""


def path_is_valid(path: str) -> bool:
    if path == "/":
        return True
    if not path.startswith("/"):
        return False
    if any(name in ("", ".", "..") for name in path[1:].split("/")):
        return False
    return (path.isascii() and path.isprintable()) or not any(map(_is_forbidden, path))


def _is_forbidden(character: str) -> bool:
    code = ord(character)
    # Java sees characters beyond the 16-bit plane as surrogate pairs, which are forbidden too.
    return code <= 0x1F or 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xF8FF or code >= 0xFFF0
