"""mosec with the JSON of msgspec, a package that it brings along: its own indents what it writes, with a slower encoder."""
import msgspec

from mosec_server import Forward, serve


class FastForward(Forward):
    def deserialize(self, data):
        return msgspec.json.decode(data)

    def serialize(self, data):
        return msgspec.json.encode(data)


if __name__ == "__main__":
    serve(FastForward)
