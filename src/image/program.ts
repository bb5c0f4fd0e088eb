/** The program of an image: one executable, with the addon and libtorch to lie beside it. */
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { SconceError } from "../errors.ts";
import type { ImageProgram } from "./contents.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Compiles the program into `folder`, which the caller removes when the image is written. */
export async function makeProgram(folder: string): Promise<ImageProgram> {
  const executable = join(folder, "server");
  const built = await Bun.build({
    entrypoints: [join(root, "src/image/stand-in.ts")],
    root,
    compile: { outfile: executable },
    minify: true,
    throw: false,
  });
  if (!built.success) throw new SconceError("image_invalid", `the program can't be compiled: ${built.logs.join("; ")}`);
  const addon = join(root, "build/Release/sconce.node");
  const text = await Bun.$`ldd ${addon}`.text();
  const libtorch = dirname(/libtorch_cpu\.so => (\S+)/.exec(text)?.[1] ?? "");
  const bytes = Buffer.from(await Bun.file(addon).bytes());
  const at = bytes.indexOf("$ORIGIN:/");
  if (at >= 0) bytes.fill(0, at + "$ORIGIN".length, bytes.indexOf(0, at));
  await Bun.write(join(folder, "sconce.node"), bytes);
  const names = [...text.matchAll(/^\s*(\S+) => (\S+) /gm)].filter(([, , path = ""]) => dirname(path) === libtorch);
  return {
    executable,
    libraries: [
      { name: "sconce.node", path: join(folder, "sconce.node") },
      ...names.map(([, name = "", path = ""]) => ({ name, path })),
    ],
  };
}
