/** `npm run pack` for another processor architecture than this machine's. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { tempDir } from "./helpers/fixture.ts";

const script = join(import.meta.dir, "../scripts/pack.ts");

async function failureOfPack(...args: string[]): Promise<{ code: number; text: string }> {
  await using empty = await tempDir();
  const env = { PATH: empty.path, HOME: empty.path };
  const child = Bun.spawn([process.execPath, "--no-install", script, ...args], { env, stderr: "pipe" });
  return { text: await child.stderr.text(), code: await child.exited };
}

test("without a cross compiler, pack names the compiler and the package that has it", async () => {
  const [arch, name] = process.arch === "x64" ? ["arm64", "aarch64"] : ["x64", "x86_64"];
  const { code, text } = await failureOfPack("addons", "--arch", arch);
  expect(code).toBe(1);
  expect(text).toContain(`the cross compiler ${name}-linux-gnu-g++: `);
  expect(text).toContain(`apt install g++-${name.replace("_", "-")}-linux-gnu`);
});

test("an architecture without packages is wrong usage", async () => {
  const { code, text } = await failureOfPack("--arch", "riscv64");
  expect({ code, text }).toEqual({ code: 2, text: expect.stringContaining("unknown: riscv64") });
});
