/** Recognizes common files that are not weights by their first and last bytes, and suggests a fix. */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";

/** Bytes read at each end of the file. A PyTorch archive starts with its pickle and ends with its list of files. */
const END_BYTES = 256 * 1024;

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

/**
 * Recognizes a file that is not weights. @returns the file's kind and a fix; undefined for weights and for unknown
 * files
 */
export function describeFile(path: string): string | undefined {
  const ends = endsOf(path);
  if (ends === undefined || ends.includes("constants.pkl") || ends.includes("data/aotinductor/")) return undefined;
  const kind = kinds.find(({ matches }) => matches(ends));
  return kind && `it is ${kind.what}; ${kind.fix}`;
}

/** Whether the file is a bare pickle (PyTorch before 1.6), or an archive whose first entry is a pickle. */
function isPickle(head: Buffer): boolean {
  return (
    (head[0] === 0x80 && (head[1] ?? 0xff) <= 5) ||
    (begins("PK\x03\x04")(head) && head.subarray(0, 512).includes("data.pkl"))
  );
}

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
