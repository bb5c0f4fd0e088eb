/** `sconce libtorch install|list|rm` */
import { existsSync, readdirSync, rmSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { z } from "zod";
import { formatBytes } from "../../base/bytes.ts";
import { SconceError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { flag, openOption, option } from "../../base/option.ts";
import { Progress } from "../../base/progress.ts";
import { chooseTorch } from "../../machine/libtorch/choose-wheel.ts";
import { glibcVersion } from "../../machine/libtorch/glibc.ts";
import { installLibtorch } from "../../machine/libtorch/install-libtorch.ts";
import {
  type InstalledLibtorch,
  installationsFolder,
  installedLibtorchs,
} from "../../machine/libtorch/installed-libtorch.ts";
import { torchMinors } from "../../machine/libtorch/libtorch-build.ts";
import { IndexClient } from "../../machine/libtorch/wheels/index-client.ts";
import { isLocal, PackageIndex, shown } from "../../machine/libtorch/wheels/package-index.ts";
import { asUrl, pipConfig } from "../../machine/libtorch/wheels/pip-config.ts";
import { programName } from "../../machine/processes/program-name.ts";
import { abortable } from "../command-line/abortable.ts";
import { command } from "../command-line/command.ts";
import { formatTable } from "../command-line/table.ts";

const actions = ["install", "list", "rm"] as const;

export const libtorch = command({
  name: "libtorch",
  description: "Install PyTorch's libraries without Python, list or remove them",
  details: `install fetches VERSION, or the newest torch that this sconce supports and this machine can load, and prints its folder. The package index is pip's (pypi.org if pip has no configuration). The wheel is checked against the index's digest, and only the libraries for serving are unpacked. With --parts only these libraries are fetched, if the server supports range requests. Each file is then checked against the wheel's own list of digests, which comes from the same server. An interrupted install resumes with the next one.

A server uses $LIBTORCH, else the torch of the Python on the PATH, else an installed one.`,
  example: `sconce libtorch install
sconce libtorch install 2.13 --index https://download.pytorch.org/whl/cpu
sconce libtorch rm 2.13.0`,
  options: {
    index: openOption<string>({
      description: "Package index (URL or folder) instead of pip's",
      valueHint: "url",
      described: "pip's",
      variable: "SCONCE_TORCH_INDEX",
      parse: z
        .string()
        .min(1, "must be a URL")
        .refine((text) => URL.canParse(asUrl(text)), "must be a URL"),
    }),
    dir: openOption<string>({
      description: "Folder to install into; servers find it only through $LIBTORCH",
      valueHint: "dir",
      described: "libtorch in your data directory",
      variable: "SCONCE_LIBTORCH_DIR",
      parse: z.string().min(1, "must be a folder"),
    }),
    cuda: option({ description: "Also install the CUDA libraries, several gigabytes", default: false, parse: flag }),
    parts: option({
      description: "Fetch only the needed files of a wheel, without checking the index's digest",
      default: false,
      parse: flag,
    }),
  },
  positionals: [
    { name: "action", description: "install, list or rm", required: true, values: actions },
    { name: "version", description: "2.13.0, or 2.13 for its newest release", required: false },
  ],
  async run({ options, positionals: [action = "", version] }) {
    const folder = options.dir === undefined ? installationsFolder() : resolve(options.dir);
    switch (actions.find((known) => known === action)) {
      case "install":
        return install(folder, version, options);
      case "list":
        return list(folder);
      case "rm":
        return remove(folder, version);
      default:
        throw new SconceError("usage", `libtorch takes ${actions.join(", ")}, not ${JSON.stringify(action)}`);
    }
  },
});

interface Options {
  readonly index: string | undefined;
  readonly cuda: boolean;
  readonly parts: boolean;
}

async function install(folder: string, version: string | undefined, options: Options): Promise<void> {
  if (process.platform !== "linux") {
    throw new SconceError(
      "usage",
      `libtorch is installed on Linux, not on ${process.platform}; take Python's torch there`,
    );
  }
  const { cuda: gpu, parts } = options;
  const pip = pipConfig();
  const places = options.index === undefined ? pip : { indexes: [asUrl(options.index)], links: [] };
  const progress = new Progress({ verb: "Fetching", isJson: !process.stderr.isTTY });
  await abortable("interrupted; the same command goes on", async (signal) => {
    const index = new PackageIndex(new IndexClient({ signal, cert: pip.cert, proxy: pip.proxy }), places);
    const platform = { glibc: glibcVersion(), arch: process.arch };
    const { wheel, leftOut } = chooseTorch(await index.wheels("torch"), {
      ...platform,
      version,
      gpu,
      minors: torchMinors,
      constraints: pip.constraints,
      places: index.places,
    });
    if (leftOut !== undefined) log.info(leftOut);
    log.info(`Taking ${wheel.filename} from ${isLocal(wheel) ? shown(wheel.url) : wheel.url.host}`);
    const { root, isNew, inParts } = await installLibtorch({
      index,
      wheel,
      folder,
      gpu,
      inParts: parts,
      platform,
      onWait: () => log.info(`Waiting for another process to install into ${folder}`),
      onProgress: (title, doneBytes, totalBytes) => progress.update({ title, doneBytes, totalBytes }),
    });
    progress.end();
    if (inParts.length > 0) {
      const what = inParts.length === 1 ? "its wheel's own list" : `the own lists of ${inParts.length} wheels`;
      log.info(`Each file has the digest of ${what}; without --parts that of the index is checked`);
    }
    log.info(
      isNew ? `Installed torch ${wheel.version.text}: ${formatBytes(sizeOf(dirname(root)))}` : "It is installed",
    );
    console.log(root);
  }).finally(() => progress.end());
}

function list(folder: string): void {
  const all = installedLibtorchs(folder);
  if (all.length === 0) {
    console.log(`There is no libtorch in ${folder}; install one with: ${programName} libtorch install`);
    return;
  }
  const rows = all.map(({ name, folder, root }) => [name, formatBytes(sizeOf(folder)), root]);
  console.log(formatTable(["VERSION", "SIZE", "FOLDER"], rows));
}

function remove(folder: string, version: string | undefined): void {
  if (version === undefined) throw new SconceError("usage", "missing argument VERSION (see --help)");
  const isMeant = ({ name }: InstalledLibtorch) => name === version || name.split(/[+-]/, 1)[0] === version;
  const matching = installedLibtorchs(folder).filter(isMeant);
  if (matching.length === 0) {
    const there = installedLibtorchs(folder).map(({ name }) => name);
    throw new SconceError(
      "usage",
      `no libtorch ${version} is installed in ${folder}: there is ${there.join(", ") || "none"}`,
    );
  }
  for (const { name, folder } of matching) {
    const bytes = sizeOf(folder);
    rmSync(folder, { recursive: true });
    console.log(`Removed ${name}: ${formatBytes(bytes)}`);
  }
}

function sizeOf(folder: string): number {
  if (!existsSync(folder)) return 0;
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}
