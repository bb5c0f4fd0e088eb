/** `npm run pack` for another processor architecture than this machine's. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { type Ended, run } from "./helpers/child-output.ts";
import { refusal } from "./helpers/failure.ts";
import { tempDir } from "./helpers/fixture.ts";

const script = join(import.meta.dir, "../scripts/pack.ts");

async function failureOfPack(...args: string[]): Promise<Ended> {
  await using empty = await tempDir();
  return run([process.execPath, "--no-install", script, ...args], { env: { PATH: empty.path, HOME: empty.path } });
}

test("without a cross compiler, pack names the compiler and the package that has it", async () => {
  const [arch, name] = process.arch === "x64" ? ["arm64", "aarch64"] : ["x64", "x86_64"];
  const { code, stderr } = await failureOfPack("addons", "--arch", arch);
  expect(code).toBe(1);
  expect(stderr).toContain(`the cross compiler ${name}-linux-gnu-g++: `);
  expect(stderr).toContain(`apt install g++-${name.replace("_", "-")}-linux-gnu`);
});

test("an architecture without packages is wrong usage", async () => {
  expect(await failureOfPack("--arch", "riscv64")).toMatchObject(refusal(2, "unknown: riscv64"));
});
