/** `sconce doctor` on this machine, and on a machine that cannot serve models. */
import { describe, expect, test } from "bun:test";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { z } from "zod";
import { SconceError } from "../src/base/errors.ts";
import { native } from "../src/cli/doctor/native.ts";
import { cli } from "./helpers/cli.ts";
import { tempDir } from "./helpers/fixture.ts";
import { storeWith } from "./helpers/server.ts";
import { canMount, tmpfs } from "./helpers/tmpfs.ts";

const report = z.object({
  ok: z.boolean(),
  checks: z.array(z.object({ name: z.string(), state: z.string(), found: z.string(), fix: z.string().optional() })),
});

async function doctor(env: Readonly<Record<string, string>>, ...args: string[]) {
  const { code, stdout } = await cli(["doctor", "--json", ...args], { env });
  const { ok, checks } = report.parse(JSON.parse(stdout));
  return { code, ok, check: (name: string) => checks.find((one) => one.name === name) };
}

describe("sconce doctor", () => {
  test("finds that this machine can serve, and prints libtorch, addon and device", async () => {
    await using store = await storeWith();
    const { code, stdout } = await store.cli(["doctor", "--port=0"]);
    expect(code).toBe(0);
    const lines = stdout.trimEnd().split("\n");
    expect(lines.every((line) => /^[✓!] \w+ +\S/.test(line))).toBe(true);
    expect(stdout).toMatch(/✓ libtorch +2\.\d+\.\d+\S*, for \w+ \w+, in \//);
    expect(stdout).toMatch(/✓ addon +made for torch 2\.\d+\.\d+\S*, in \/.*sconce\.node$/m);
  });

  test("prints each fault with its fix, and exits with 1", async () => {
    await using dir = await tempDir();
    await writeFile(dir.join("file"), "");
    await mkdir(dir.join("bin"));
    // A script in place of NVIDIA's tool: a GPU and its driver exist, but libtorch cannot use them.
    await writeFile(dir.join("bin/nvidia-smi"), '#!/bin/sh\necho "NVIDIA H100, 81559 MiB, 570.1"\n');
    await chmod(dir.join("bin/nvidia-smi"), 0o755);
    using taken = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
    const env = {
      HOME: dir.path,
      SCONCE_HOME: dir.join("file/store"),
      PATH: dir.join("bin"),
      SCONCE_HOST: "127.0.0.1",
    };
    const { code, ok, check } = await doctor(env, `--port=${taken.port}`);
    expect({ code, ok }).toEqual({ code: 1, ok: false });
    expect(check("port")).toMatchObject({
      state: "fault",
      found: expect.stringContaining(`${taken.port} of 127.0.0.1`),
      fix: "choose another with --port",
    });
    expect(check("data")).toMatchObject({ state: "fault", fix: "name another with SCONCE_HOME" });
    expect(check("gpu")).toMatchObject({
      state: "warning",
      found: expect.stringContaining("NVIDIA H100, 81559 MiB, driver 570.1"),
    });
  });

  test.skipIf(!canMount)(
    "only warns if the data directory cannot be written, since its models can be served (skipped where file systems cannot be mounted)",
    async () => {
      using disk = tmpfs("64k");
      disk.setReadOnly(true);
      const { code, check } = await doctor({ SCONCE_HOME: disk.path }, "--port=0");
      expect(code).toBe(0);
      const found = `${disk.path} cannot be written: nothing can be built, and predictions are kept in memory`;
      expect(check("data")).toMatchObject({ state: "warning", found });
      const missing = await doctor({ SCONCE_HOME: `${disk.path}/store` }, "--port=0");
      expect(missing).toMatchObject({ code: 1 });
      expect(missing.check("data")).toMatchObject({ state: "fault", found: `${disk.path}/store cannot be written` });
    },
  );
});

test("doctor finds a platform that sconce does not support", async () => {
  await using dir = await tempDir();
  await writeFile(dir.join("arch.ts"), 'Object.defineProperty(process, "arch", { value: "riscv64" });');
  const env = { SCONCE_HOME: dir.join("home"), BUN_OPTIONS: `--preload ${dir.join("arch.ts")}` };
  expect(await cli(["doctor", "--port=0"], { env, isSource: true })).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/^✗ system +linux riscv64: use Linux with glibc on x64 or arm64/m),
  });
});

test("doctor prints the fault of libtorch on one line and its fix on another", async () => {
  const fault = new SconceError("native_unavailable", "torch 2.9.1 in /a; b is too old", {
    fix: "install another; or two",
  });
  expect(fault.message).toBe("torch 2.9.1 in /a; b is too old; install another; or two");
  const [libtorch] = await native(() => Promise.reject(fault));
  expect(libtorch).toEqual({
    name: "libtorch",
    state: "fault",
    found: "torch 2.9.1 in /a; b is too old",
    fix: "install another; or two",
  });
});
