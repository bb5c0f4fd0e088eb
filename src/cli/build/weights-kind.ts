/** Recognizes common files that are not weights by their first bytes, and suggests a fix. */

/** Bytes read of the file. A PyTorch archive starts with its pickle. */
const HEAD_BYTES = 256 * 1024;

const exporting = `torch.export.save(torch.export.export(net.eval(), (example,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)), PATH)`;

interface Kind {
  readonly what: string;
  readonly fix: string;
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
    what: "a safetensors file, numbers without the network",
    fix: `in Python: net.load_state_dict(safetensors.torch.load_file(FILE)); ${exporting}`,
    matches: (head) => head.length > 9 && head.readBigUInt64LE(0) < 1n << 28n && head[8] === 0x7b,
  },
  {
    what: "a pickle, such as a state dict: numbers without the network",
    fix: `in Python: net.load_state_dict(torch.load(FILE)), of a checkpoint torch.load(FILE)["model"]; ${exporting}`,
    matches: isPickle,
  },
];

/** Recognizes a file that is not weights. @returns the file's kind and a fix; undefined for unknown and missing files */
export async function describeFile(path: string): Promise<string | undefined> {
  const head = await Bun.file(path)
    .slice(0, HEAD_BYTES)
    .bytes()
    .catch(() => new Uint8Array());
  const kind = kinds.find(({ matches }) => matches(Buffer.from(head)));
  return kind && `it is ${kind.what}; ${kind.fix}`;
}

/** Whether the file is a bare pickle (PyTorch before 1.6), or an archive whose first entry is a pickle. */
function isPickle(head: Buffer): boolean {
  return (
    (head[0] === 0x80 && (head[1] ?? 0xff) <= 5) ||
    (begins("PK\x03\x04")(head) && head.subarray(0, 512).includes("data.pkl"))
  );
}
