/** Makes environments with pinned clients, in `.sconce/clients`, and runs their commands. */
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { findPython } from "../setup/python.ts";
import { root } from "../setup/step.ts";

/** Folder of the programs and lists of packages with which clients are tried. */
export const sources = join(root, "test", "clients");

export interface Environment {
  readonly folder: string;
  /**
   * Runs a program of the environment, or of this machine.
   * @returns the output
   * @throws Error with the output, if the program fails
   */
  run(command: readonly string[], variables?: Readonly<Record<string, string>>): Promise<string>;
}

/**
 * Returns the Python environment with the packages in `test/clients/NAME.txt`. Makes it if it is missing or the list
 * has changed.
 * @param npm packages that Bun installs in `node_modules` of the environment, such as `openai@7.57.0`
 */
export async function environment(name: string, npm: readonly string[] = []): Promise<Environment> {
  const folder = join(root, ".sconce", "clients", name);
  const list = join(sources, `${name}.txt`);
  const bin = join(folder, "bin");
  const path = `${bin}:${process.env.PATH}`;
  const run: Environment["run"] = async ([command = "", ...words], variables = {}) => {
    const child = Bun.spawn([Bun.which(command, { PATH: path }) ?? command, ...words], {
      stdout: "pipe",
      stderr: "pipe",
      env: { ...process.env, PATH: path, ...variables },
    });
    const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
    if (code !== 0) throw new Error(`${command} ${words.join(" ")} ended with ${code}:\n${out}${err}`);
    return out;
  };
  const stamp = join(folder, "installed.txt");
  const wanted = [await Bun.file(list).text(), ...npm].join("\n");
  if (existsSync(stamp) && (await Bun.file(stamp).text()) === wanted) return { folder, run };
  const { executable = "python3" } = (await findPython()) ?? {};
  await mkdir(folder, { recursive: true });
  await run([executable, "-m", "venv", "--clear", folder]);
  await run([join(bin, "pip"), "install", "--quiet", "-r", list]);
  if (npm.length > 0) {
    await Bun.write(join(folder, "package.json"), "{}");
    await run([process.execPath, "add", "--exact", "--cwd", folder, ...npm]);
  }
  await Bun.write(stamp, wanted);
  return { folder, run };
}
