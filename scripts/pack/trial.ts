/** Tries a command line in an empty home folder, and prints how long each step takes. */
import { clientOf, follow } from "../../test/helpers/cli.ts";
import { tempDir } from "../../test/helpers/fixture.ts";

/** Makes a model, serves it, and makes an executable and an image of it. */
export async function tryCommandLine(sconce: string, env: Readonly<Record<string, string>> = {}): Promise<void> {
  await using dir = await tempDir();
  const start = (args: readonly string[]) => {
    const options = { cwd: dir.path, stdin: "ignore", stdout: "pipe", stderr: "pipe" } as const;
    return follow(Bun.spawn([...args], { ...options, env: { HOME: dir.join("home"), PATH: "/usr/bin:/bin", ...env } }));
  };
  const serve = async (...args: string[]) => {
    await using server = start([...args, "--port=0", "--host=127.0.0.1"]);
    const answer = await (await clientOf(server)).predict([{ colour: "#ff8800" }]);
    if (answer.status !== "success") throw new Error(JSON.stringify(answer));
  };
  const run = async (...args: string[]) => {
    await using program = start(args);
    await program.stdout;
    if ((await program.exited) !== 0) throw new Error(program.lines.join("\n"));
  };
  await timed("init", () => run(sconce, "init", "flowers"));
  await timed("build", () => run(sconce, "build", "flowers"));
  await timed("predict", () => run(sconce, "predict", "flowers", "colour=#ff8800"));
  await timed("serve and answer", () => serve(sconce, "serve", "flowers"));
  await timed("compile", () => run(sconce, "compile", "flowers", "--libtorch", "external", "-o", "server"));
  await timed("image", () => run(sconce, "image", "flowers", "-o", "images"));
}

export async function timed(name: string, step: () => Promise<void>): Promise<void> {
  const began = performance.now();
  await step();
  console.log(`  ${name} ${((performance.now() - began) / 1000).toFixed(1)} s`);
}
