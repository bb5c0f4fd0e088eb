/** A minimal root file system, in which other tests run executable files and images. */
import { expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { bareRoot, bareRootTest } from "./helpers/bare-root.ts";
import { clientOf } from "./helpers/cli.ts";
import { systemLibraries } from "./helpers/executable.ts";

const bareTest = bareRootTest(test);

const serving = `
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response(process.cwd()) });
  console.log(JSON.stringify({ env: process.env, uid: process.getuid(), gid: process.getgid(), random: crypto.randomUUID() }));
  console.error("Listening on " + server.url);
  process.on("SIGTERM", () => process.exit(7));
`;

async function bunRoot() {
  const root = await bareRoot();
  await root.add({ "/bun": process.execPath, ...(await systemLibraries()) });
  return root;
}

bareTest(
  "a program in a bare root has its environment, user and folder, is reached by loopback and gets signals",
  async () => {
    await using root = await bunRoot();
    const program = root.run(["/bun", "-e", serving], {
      env: { A: "b c" },
      user: { uid: 1234, gid: 5678 },
      cwd: "/tmp",
    });
    const client = await clientOf(program);
    expect(await client.text("/")).toBe("/tmp");
    program.kill("SIGTERM");
    expect(await program.exited).toBe(7);
    expect(JSON.parse(await program.stdout)).toMatchObject({ env: { A: "b c" }, uid: 1234, gid: 5678 });
  },
);

bareTest("a program in a bare root sees no file of the system, and an empty environment unless given one", async () => {
  await using root = await bunRoot();
  const look = `console.log(JSON.stringify([Object.keys(process.env), require("fs").readdirSync("/").sort()]))`;
  const program = root.run(["/bun", "-e", look]);
  const [variables, entries] = JSON.parse(await program.stdout);
  expect(variables).toEqual([]);
  expect(entries).not.toContain("etc");
  expect(entries).toContain("proc");
});

bareTest("a program in a bare root that is killed leaves no mount", async () => {
  await using root = await bunRoot();
  const program = root.run(["/bun", "-e", serving]);
  await clientOf(program);
  program.kill("SIGKILL");
  expect(await program.exited).toBe(137);
  expect(await readFile("/proc/mounts", "utf8")).not.toContain(root.path);
});
