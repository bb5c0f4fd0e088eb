/**
 * Makes the wheel sconce-serve: the command line as an executable without libtorch, and an addon for each minor release
 * of torch.
 */
import { mkdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { formatBytes } from "../../src/base/bytes.ts";
import { type Architecture, thisArchitecture } from "../../src/base/platform-package.ts";
import { addonName } from "../../src/machine/libtorch/pack.ts";
import { tempDir } from "../../test/helpers/fixture.ts";
import type { PackOptions } from "../pack.ts";
import { run } from "../setup/command.ts";
import { readLibtorch } from "../setup/libtorch.ts";
import { root } from "../setup/step.ts";
import { madeAddons } from "./addons.ts";
import { targetFor } from "./cross.ts";
import { type Addons, dist } from "./npm.ts";
import { compileCommandLine } from "./one-file.ts";
import { timed, tryCommandLine } from "./trial.ts";
import { wheelPlatform } from "./wheel-platform.ts";

const { version, license, description } = await Bun.file(join(root, "package.json")).json();

export async function pack(options: PackOptions): Promise<void> {
  const { arch, isTried } = options;
  const addons = madeAddons(options);
  await using work = await tempDir();
  const executable = work.join("sconce");
  await compileCommandLine({ outfile: executable, libtorch: "beside", target: await targetFor(arch) });
  mkdirSync(dist, { recursive: true });
  const path = await packWheel(dist, { executable, addons, arch });
  console.log(`${path}: ${formatBytes(statSync(path).size)}`);
  if (isTried && arch === process.arch) await tryWheel(path);
}

/** Installs the wheel in a new virtual environment with the set-up's torch, and uses it. */
async function tryWheel(wheel: string): Promise<void> {
  const libtorch = readLibtorch();
  if (!libtorch?.python) throw new Error("the set-up found no Python that has torch");
  const { command } = libtorch.python;
  await using work = await tempDir();
  const venv = work.join("venv");
  await timed("venv", () => run([command, "-m", "venv", venv], { verbose: false }));
  const pip = [join(venv, "bin/python"), "-m", "pip", "install", "--no-index", "--quiet"];
  await timed("pip install", () => run([...pip, wheel], { verbose: false }));
  const [site = ""] = await Array.fromAsync(
    new Bun.Glob("lib/python*/site-packages").scan({ cwd: venv, onlyFiles: false }),
  );
  await Bun.write(join(venv, site, "torch.pth"), `${dirname(libtorch.root)}\n`);
  await tryCommandLine(join(venv, "bin/sconce"));
}

export interface WheelOptions {
  /** Path of the executable with all commands, without libtorch. */
  readonly executable: string;
  readonly addons: Addons;
  /** Default: this machine's. */
  readonly arch?: Architecture;
  /** Compression level, 0 to 9. */
  readonly level?: number;
}

export async function packWheel(folder: string, options: WheelOptions): Promise<string> {
  const { executable, addons, arch = thisArchitecture(), level = 9 } = options;
  await using work = await tempDir();
  const platform = await wheelPlatform([executable, ...Object.values(addons)], arch);
  const tag = `py3-none-${platform}`;
  const texts: Record<string, string> = {
    "sconce_serve/__main__.py": 'from sconce_serve import main\n\nif __name__ == "__main__":\n    main()\n',
    METADATA: metadata(Object.keys(addons)),
    WHEEL: `Wheel-Version: 1.0\nGenerator: sconce ${version}\nRoot-Is-Purelib: false\nTag: ${tag}\n`,
    "entry_points.txt": "[console_scripts]\nsconce = sconce_serve:main\n",
  };
  const about = `sconce_serve-${version}.dist-info`;
  const files: Record<string, string> = {
    "sconce_serve/__init__.py": join(import.meta.dir, "wheel/sconce_serve.py"),
    "sconce_serve/sconce": executable,
    [`${about}/licenses/LICENSE`]: join(root, "LICENSE"),
    ...Object.fromEntries(
      Object.entries(addons).map(([minor, path]) => [`sconce_serve/addons/${minor}/${addonName}`, path]),
    ),
  };
  for (const [name, text] of Object.entries(texts)) {
    const path = work.join(name.replace("/", "-"));
    await Bun.write(path, text);
    files[name.includes("/") ? name : `${about}/${name}`] = path;
  }
  const wheel = join(folder, `sconce_serve-${version}-${tag}.whl`);
  const given = Object.entries(files).map(([name, path]) => `${path}=${name}`);
  await run(["python3", join(import.meta.dir, "wheel/write_wheel.py"), wheel, String(level), ...given], {
    verbose: false,
  });
  return wheel;
}

function metadata(minors: readonly string[]): string {
  const [first, last] = [minors[0], minors.at(-1)?.replace(/\d+$/, (minor) => String(Number(minor) + 1))];
  return `Metadata-Version: 2.4
Name: sconce-serve
Version: ${version}
Summary: ${description}
License-Expression: ${license}
License-File: LICENSE
Requires-Python: >=3.9
Provides-Extra: torch
Requires-Dist: torch>=${first},<${last}; extra == "torch"
Description-Content-Type: text/markdown

${description}

The command \`sconce\` is one program, which needs no other packages: it takes the libraries of the torch that is installed
beside it (${first} or later, below ${last}), and no Python runs while it serves.

    pip install sconce-serve[torch]
    sconce init flowers
    sconce build flowers
    sconce serve flowers
`;
}
