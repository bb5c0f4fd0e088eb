/** What a file is that was taken for weights and is none, told by its first bytes, with the line of Python that makes weights of it. */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";

/** An archive of PyTorch begins with its pickle, uncompressed: enough of it to see what was pickled. It ends with the names of its files. */
const END_BYTES = 256 * 1024;

const exporting = `torch.export.save(torch.export.export(net.eval(), (example,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)), PATH)`;

interface Kind {
  readonly what: string;
  readonly fix: string | ((head: Buffer) => string);
  readonly matches: (head: Buffer) => boolean;
}

const begins = (text: string) => (head: Buffer) => head.subarray(0, text.length).toString("latin1") === text;

const kinds: readonly Kind[] = [
  {
    what: "a pointer of Git LFS, not the file itself",
    fix: "run: git lfs pull",
    matches: begins("version https://git-lfs"),
  },
  {
    what: "a web page: what was downloaded is not the file",
    fix: "download it again, logged in where that is asked for",
    matches: (head) => /^\s*<(!doctype|html|\?xml)/i.test(head.subarray(0, 200).toString("latin1")),
  },
  {
    what: "a safetensors file, numbers without the network",
    fix: `in Python: net.load_state_dict(safetensors.torch.load_file(FILE)); ${exporting}`,
    matches: (head) => head.length > 9 && head.readBigUInt64LE(0) < 1n << 28n && head[8] === 0x7b,
  },
  {
    what: "a GGUF file, numbers without the network",
    fix: "export the network from PyTorch instead",
    matches: begins("GGUF"),
  },
  {
    what: "an HDF5 file, as Keras writes it",
    fix: "sconce runs what PyTorch exports",
    matches: begins("\x89HDF"),
  },
  {
    // A message of protocol buffers: the version of the format, then what wrote it.
    what: "an ONNX model",
    fix: `export from PyTorch instead: ${exporting}`,
    matches: (head) =>
      head[0] === 0x08 && head[1] !== undefined && head[1] < 32 && [0x12, 0x1a, 0x22, 0x3a].includes(head[2] ?? 0),
  },
  {
    what: "an exported program as an older torch wrote it",
    fix: `export it with torch 2.11 or newer: ${exporting}`,
    matches: (ends) => ends.includes("serialized_exported_program"),
  },
  {
    what: "a pickled module, which needs its Python classes",
    fix: `in Python: net = torch.load(FILE, weights_only=False); ${exporting}`,
    matches: (head) => isPickle(head) && head.includes("_modules") && head.includes("_parameters"),
  },
  {
    what: "a state dict, numbers without the network",
    fix: (head) => `in Python: net.load_state_dict(torch.load(FILE)${entryOf(head)}); ${exporting}`,
    matches: (head) => isPickle(head) && (head.includes("OrderedDict") || head.includes("_rebuild_tensor")),
  },
  { what: "a Python pickle", fix: `in Python: ${exporting}`, matches: isPickle },
];

/** @returns what the file is, and what to do; undefined for weights, and for what nobody brings by mistake */
export function describeFile(path: string): string | undefined {
  const ends = endsOf(path);
  if (ends === undefined || ends.includes("constants.pkl") || ends.includes("data/aotinductor/")) return undefined;
  const kind = kinds.find(({ matches }) => matches(ends));
  return kind && `it is ${kind.what}; ${typeof kind.fix === "string" ? kind.fix : kind.fix(ends)}`;
}

/** A key of a pickled dict whose value is an OrderedDict, or a dict with a tensor. Pickle memoizes each with `q` or \\x94. */
const dictEntry =
  /X[\s\S]{4}([\w.-]+)(?:q[\s\S]|\x94)(?:ccollections\nOrderedDict|\}(?:q[\s\S]|\x94)\(?X[\s\S]{4}[\w.-]+(?:q[\s\S]|\x94)ctorch)/;

/** `["model"]` where training saved the state dict as an entry of a dict; a state dict itself has no dict as a value. */
function entryOf(head: Buffer): string {
  const [, key] = dictEntry.exec(head.toString("latin1")) ?? [];
  return key === undefined ? "" : `["${key}"]`;
}

/** Alone, as releases before 1.6 wrote it, or as the first entry of an archive. */
function isPickle(head: Buffer): boolean {
  return (
    (head[0] === 0x80 && (head[1] ?? 0xff) <= 5) ||
    (begins("PK\x03\x04")(head) && head.subarray(0, 512).includes("data.pkl"))
  );
}

/** The first bytes, and the last. */
function endsOf(path: string): Buffer | undefined {
  try {
    const file = openSync(path, "r");
    try {
      const { size } = fstatSync(file);
      const read = (from: number) => {
        const part = Buffer.alloc(Math.min(END_BYTES, size - from));
        return part.subarray(0, readSync(file, part, 0, part.length, from));
      };
      return Buffer.concat([read(0), read(Math.max(0, size - END_BYTES))]);
    } finally {
      closeSync(file);
    }
  } catch {
    return undefined;
  }
}
