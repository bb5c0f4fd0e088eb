/** Executable files run on a system that has only the C and C++ libraries. */
import { beforeAll, describe, expect, test } from "bun:test";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { bareRoot, bareRootTest } from "../helpers/bare-root.ts";
import { clientOf, follow } from "../helpers/cli.ts";
import { bytesOfUri, fileUri } from "../helpers/data-uri.ts";
import { digitsExecutable, executable, systemLibraries } from "../helpers/executable.ts";
import { fixture, tempDir } from "../helpers/fixture.ts";
import { cacheFolder } from "../helpers/machine.ts";
import { descendants } from "../helpers/running.ts";
import { storeWith } from "../helpers/server.ts";
import { withWeights } from "../helpers/upscale.ts";
import { packages } from "../helpers/weights.ts";

const examples = join(import.meta.dir, "../..", "examples");
const inBareRoot = bareRootTest(test);

const digits = fixture(digitsExecutable, 600_000);
const upscale = fixture(async () => {
  await using dir = await tempDir();
  const weights = (await packages()).path("enlarged-compiled.pt2");
  return await executable(await withWeights(dir.join("upscale"), weights));
}, 600_000);

test("an executable file serves the model of a model folder, and contains no other folder", async () => {
  await using store = await storeWith("lab");
  await using home = await tempDir();
  const env = { HOME: home.path, SCONCE_CACHE_DIR: cacheFolder, SCONCE_STORE: "memory" };
  const serving = (folder: string) => {
    const command = [digits.path, "serve", folder, "--port=0", "--host=127.0.0.1"];
    return follow(Bun.spawn(command, { env, stdin: "ignore", stdout: "pipe", stderr: "pipe" }));
  };
  await using server = serving(store.home);
  const client = await clientOf(server);
  expect(await client.predict([{ x: 1 }])).toMatchObject({ status: "success", outputs: [{ y: 3 }] });
  await using refused = serving(join(examples, "digits"));
  await refused.line("is not a model store, and this program packages no models");
  expect(await refused.exited).toBe(2);
});

describe("executable files, with an empty environment and a user without a name", () => {
  const root = fixture(bareRoot);
  beforeAll(async () => {
    await root.add({ "/server": digits.path, "/upscale": upscale.path, ...(await systemLibraries()) });
  });

  inBareRoot("predicts, cancels, shows its documentation, writes nothing of the model, and ends with 0", async () => {
    await using server = root.run(["/server", "--port", "0", "--host", "127.0.0.1"]);
    const client = await clientOf(server);
    const image = await fileUri(join(examples, "digits/samples/3.png"));
    expect(await client.predict([{ image }, { image }])).toMatchObject({
      status: "success",
      outputs: [{ digit: 3 }, { digit: 3 }],
    });
    const { prediction_id: id } = await client.create(Array.from({ length: 2000 }, () => ({ image })));
    expect(await client.cancel(id)).toMatchObject({ status: "failed", error_message: "Canceled" });

    const pages = await Promise.all(["/docs", "/demo"].map(async (path) => (await client.fetch(path)).text()));
    const links = [...pages.join().matchAll(/(?:src|href)="([^"]+\/assets\/[^"]+)"/g)].map(([, link = ""]) => link);
    expect(links).toHaveLength(4);
    for (const link of links) {
      const asset = await fetch(new URL(link, new URL("/docs", client.url)));
      expect([asset.status, (await asset.bytes()).length > 1000]).toEqual([200, true]);
      expect(asset.headers.get("content-type")).toMatch(/^text\/(?:css|javascript)/);
    }
    expect(await client.demos.predict([{ image }])).toMatchObject({ status: "success", demo_outputs: [{ digit: 3 }] });
    const files = await readdir(root.path, { recursive: true, withFileTypes: true });
    const written = files.filter((file) => file.isFile() && file.parentPath.includes("/tmp/sconce-run-"));
    const names = written.map(({ name }) => name).filter((name) => !/^lib\w+\.so(\.\d+)?$/.test(name));
    // The counters and the running hook are files that the processes of the server share. Each folder of a run has a lock.
    expect(new Set(names)).toEqual(
      new Set([".lock", "counters", "counts", "counts-0", "hook-0", "lock", "sconce.node"]),
    );
    server.kill("SIGTERM");
    expect(await server.exited).toBe(0);
    // This user has no cache folder, and a folder shared by all users is unsafe for code. So each start unpacks into
    // a new folder.
    expect(server.lines.filter((line) => /Unpacking libraries once into \S+\/sconce-run-/.test(line)).length).toBe(1);
    const left = await readdir(join(root.path, "tmp"), { recursive: true });
    expect(left).toEqual([]);
  });

  inBareRoot("unpacks once where it is given a folder, and checks large bodies beside the loop", async () => {
    const env = { SCONCE_CACHE_DIR: "/tmp/cache" };
    await using first = root.run(["/server", "predict", "--example"], { env });
    expect(await first.exited).toBe(0);
    await using server = root.run(["/server", "--port=0", "--host=127.0.0.1", "--log-level=debug"], { env });
    const client = await clientOf(server);
    expect(server.lines.filter((line) => line.includes("Unpacking"))).toEqual([]);
    const image = await fileUri(join(examples, "digits/samples/7.png"));
    const inputs = Array.from({ length: 300 }, () => ({ image }));
    expect(JSON.stringify(inputs).length).toBeGreaterThan(2 ** 18);
    const { outputs = [] } = await client.predict(inputs);
    expect(outputs.map(({ digit }) => digit)).toEqual(inputs.map(() => 7));
    expect(await client.refused([...inputs, { image: 7 }])).toMatchObject({ errors: [{ pointer: "/300/image" }] });
    // A separate thread checks large bodies. If the thread fails, the main thread checks them, and the log says so.
    expect(server.lines.filter((line) => line.includes("main thread"))).toEqual([]);
  });

  inBareRoot("says what it is, predicts and inspects without a server, and knows its options", async () => {
    const run = async (...args: string[]) => {
      await using program = root.run(["/server", ...args], { env: { SCONCE_CACHE_DIR: "/tmp/cache" } });
      const [code, stdout] = await Promise.all([program.exited, program.stdout]);
      return { code, stdout, stderr: program.lines.join("\n").trim() };
    };
    const { stdout: version } = await run("--version");
    expect(version).toMatch(
      /^sconce \d+\.\d+\.\d+\nmodel digits:[0-9a-f]{12} sha256:[0-9a-f]{64}\ntorch \d+\.\d+\.\d+\S*\n$/,
    );
    expect(version).toContain(`model ${digits.reference} `);
    const { stdout: predicted } = await run("predict", "--example");
    expect(JSON.parse(predicted)).toMatchObject({ digit: 3 });
    const { stdout: inspected } = await run("inspect");
    expect(JSON.parse(inspected)).toMatchObject({ reference: digits.reference, config: { name: "digits" } });
    const { stdout: help } = await run("--help");
    for (const part of [digits.reference, "./server [OPTIONS]", "--batch-size", "predict"]) {
      expect(help).toContain(part);
    }
    expect((await run("help", "predict")).stdout).toContain("./server predict [OPTIONS] [FIELD=VALUE…]");
    expect(await run("--batch-sice", "3")).toEqual({
      code: 2,
      stdout: "",
      stderr: "sconce: unknown option --batch-sice; did you mean --batch-size? (see --help)",
    });
    expect(await run("sreve")).toMatchObject({ code: 2, stderr: "sconce: unknown command sreve; did you mean serve?" });
    expect(await run("digits:v1")).toMatchObject({ code: 2 });
  });

  inBareRoot(
    "beside another, whose weights are compiled for this processor: both have the same libraries unpacked",
    async () => {
      const env = { SCONCE_CACHE_DIR: "/tmp/cache" };
      await using first = root.run(["/server", "predict", "--example"], { env });
      expect(await first.exited).toBe(0);
      await using server = root.run(["/upscale", "--port=0", "--host=127.0.0.1"], { env });
      const client = await clientOf(server);
      expect(server.lines.filter((line) => line.includes("Unpacking"))).toEqual([]);
      const image = await fileUri(join(examples, "upscale/samples/coffee.jpg"));
      const { outputs: [output] = [] } = await client.predict([{ image }]);
      const enlarged = await sizeOf(String(Object.values(output ?? {})[0]));
      const original = await sizeOf(image);
      expect(enlarged).toEqual({ width: 2 * original.width, height: 2 * original.height });
      const maps = await Promise.all(
        (await descendants(server.pid)).map((pid) => readFile(`/proc/${pid}/maps`, "utf8")),
      );
      expect(maps.filter((map) => map.includes("memfd:turbojpeg")).length).toBe(1);
      server.kill("SIGTERM");
      expect(await server.exited).toBe(0);
    },
  );
});

async function sizeOf(uri: string): Promise<{ width: number; height: number }> {
  const { width, height } = await new Bun.Image(bytesOfUri(uri)).metadata();
  return { width, height };
}

describe("compiling", () => {
  test("the same model twice gives equal bytes for every user", async () => {
    await using again = await executable(join(examples, "digits"), [], { NODE_ENV: "test", LANG: "tr_TR.UTF-8" });
    const digest = async (path: string) => Bun.hash(await Bun.file(path).bytes());
    expect(await digest(again.path)).toBe(await digest(digits.path));
  });

  test("into a path that is a folder, or in a missing folder, is refused before compiling", async () => {
    await using dir = await tempDir();
    await using store = await storeWith("lab");
    expect(await store.cliHere(["compile", "lab", "-o", dir.path])).toMatchObject({
      code: 2,
      stderr: `sconce: ${dir.path} is a folder; name a file with --output\n`,
    });
    const { code, stderr } = await store.cliHere(["compile", "lab", "-o", dir.join("absent/server")]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/absent\/server cannot be written \(ENOENT.*\); name another file with --output\n$/);
    expect(await store.cliHere(["compile", "lab", "--libtorch", "inside"])).toMatchObject({ code: 2 });
    expect(await store.cliHere(["compile", "absent"])).toMatchObject({ code: 1 });
  });
});
