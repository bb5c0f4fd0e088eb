/** Tests of the fields on the model's page: typing, files, camera and microphone, and the author's descriptions. */
import { expect, test } from "bun:test";
import { pageProxy } from "../helpers/page-proxy.ts";
import { modelFolder } from "../helpers/server.ts";
import { tempDir } from "../helpers/temp-dir.ts";
import type { Visitor } from "../helpers/visitor.ts";

interface Fields {
  readonly visitor: Visitor;
  /** URL of a server for the model of kinds.ts. */
  readonly kinds: URL;
}

/** The NumPy file of [[1, 2, 3], [4, 5, 6]] in float32. */
function npy(): Uint8Array {
  const header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }".padEnd(117).concat("\n");
  const start = [0x93, ...Buffer.from("NUMPY"), 1, 0, header.length, 0, ...Buffer.from(header)];
  return new Uint8Array([...start, ...new Uint8Array(Float32Array.of(1, 2, 3, 4, 5, 6).buffer)]);
}

const white = () => Bun.file(`${modelFolder("picture")}/white.png`).bytes();

export function fieldTests(given: () => Fields): void {
  const outputs = async () => {
    const { visitor } = given();
    await visitor.run();
    await visitor.comesTo("Done");
    return visitor.browser.evaluate<Record<string, string>>(
      `Object.fromEntries([...document.querySelectorAll("dl > div")].map((each) => [each.firstChild.textContent, each.lastChild.innerText]))`,
    );
  };

  test("the author sets titles, hidden fields and names of choices", async () => {
    const { visitor, kinds } = given();
    await visitor.open(kinds);
    expect(await visitor.text("label")).toBe("What it says");
    expect(await visitor.text(".about")).toBe("Is said again.");
    expect(await visitor.text("select")).toBe("SmallLarge");
    expect(await visitor.browser.evaluate<string>("document.body.innerText")).not.toContain("Secret");
    const titles = ["It said", "Size", "Matrix", "Width", "Wave", "Tree", "Swatches", "Found", "Name", "Crop"];
    expect(Object.keys(await outputs())).toEqual(titles);
  });

  test("outputs are shown by type: a word, numbers, JSON", async () => {
    const { visitor, kinds } = given();
    await visitor.open(kinds);
    const { "It said": said, Wave, Tree } = await outputs();
    expect(said).toBe("hello");
    expect(Wave).toStartWith("[0,0.0998");
    expect(JSON.parse(Tree ?? "")).toEqual([{ branches: [["leaf"]] }]);
    expect(await visitor.violations()).toEqual([]);
  });

  test("files are shown by type, in a list and in objects", async () => {
    const { visitor, kinds } = given();
    await visitor.open(kinds);
    const { Swatches, Found } = await outputs();
    const facts = /image\/png\s*· 1 × 1 · \d+ B\s*Save/g;
    expect([Swatches?.match(facts)?.length, Found]).toEqual([2, expect.stringContaining("image/png · 2 × 1 · ")]);
    const shown = await visitor.browser.evaluate<[string, number][]>(
      `[...document.querySelectorAll(".result img")].map((each) => [each.alt, each.naturalWidth])`,
    );
    expect(shown).toEqual([
      ["Swatches 1", 1],
      ["Swatches 2", 1],
      ["Crop", 2],
    ]);
    expect(await visitor.violations()).toEqual([]);
  });

  test("an array is read from a .npy file, and other files are refused", async () => {
    const { visitor, kinds } = given();
    await visitor.open(kinds);
    await visitor.reveal("/0/matrix");
    await visitor.choose('[id="field/0/matrix"] ~ [type=file]', {
      name: "numbers.npy",
      type: "application/octet-stream",
      bytes: npy(),
    });
    await visitor.until(`document.getElementById("field/0/matrix").value === "[[1,2,3],[4,5,6]]"`);
    expect((await outputs()).Matrix).toMatch(/^0\s+1\s+1\s+2\s+2\s+3\s+3\s+4\s+4\s+5\s+5\s+6$/);
    await visitor.choose('[id="field/0/matrix"] ~ [type=file]', {
      name: "a.txt",
      type: "text/plain",
      bytes: Buffer.from("no numbers"),
    });
    await visitor.says("The file is neither JSON nor .npy");
  });

  test("a picture is pasted from the clipboard", async () => {
    const { visitor, kinds } = given();
    await visitor.open(kinds);
    await visitor.reveal("/0/picture");
    await visitor.browser.evaluate(`(() => {
      const bytes = Uint8Array.from(atob("${(await white()).toBase64()}"), (letter) => letter.charCodeAt(0));
      return navigator.clipboard.write([new ClipboardItem({ "image/png": new Blob([bytes], { type: "image/png" }) })]);
    })()`);
    await visitor.browser.view.cdp("Input.dispatchKeyEvent", { type: "keyDown", key: "v", commands: ["paste"] });
    await visitor.until(`document.querySelector(".file img")?.src.startsWith("data:image/png")`);
    expect(Number((await outputs()).Width)).toBeGreaterThan(0);
  });

  test("the author's examples fill the form", async () => {
    const { visitor, kinds } = given();
    await visitor.open(kinds);
    await visitor.click("good evening");
    await visitor.until(`document.getElementById("field/0/said").value === "good evening"`);
    expect(await outputs()).toMatchObject({ "It said": "good evening", Size: "s" });
  });

  test("optional fields that stay empty are left out", async () => {
    const { visitor, kinds } = given();
    await using proxy = pageProxy(kinds);
    await visitor.open(proxy.url);
    await visitor.reveal("/0/before");
    await visitor.browser.view.type("h");
    await visitor.browser.view.press("Backspace");
    await outputs();
    expect(proxy.posted).toEqual([[{ said: "hello", size: "l", secret: 3 }]]);
  });

  test("a phone's camera and microphone take files, and a recorded sound becomes WAV", async () => {
    const { visitor, kinds } = given();
    const shown = (device: string) =>
      visitor.browser.evaluate<boolean>(
        `[...document.querySelectorAll(".capture")].find((each) => each.textContent === "${device}").checkVisibility()`,
      );
    await visitor.open(kinds);
    await visitor.reveal("/0/sound");
    expect([await shown("Camera"), await shown("Microphone")]).toEqual([false, false]);
    await visitor.browser.look({ width: 360, height: 740 });
    expect([await shown("Camera"), await shown("Microphone")]).toEqual([true, true]);
    const record = `(async () => {
      const recorder = new MediaRecorder(await navigator.mediaDevices.getUserMedia({ audio: true }));
      const recorded = new Promise((resolve) => { recorder.ondataavailable = ({ data }) => data.size > 0 && resolve(data); });
      recorder.start(500);
      const sound = await recorded;
      const transfer = new DataTransfer();
      transfer.items.add(new File([sound], "sound", { type: sound.type }));
      const input = document.querySelector('[accept="audio/*"][capture]');
      input.files = transfer.files;
      input.dispatchEvent(new Event("change"));
      return sound.type;
    })()`;
    expect(await visitor.browser.evaluate<string>(record)).toStartWith("audio/webm");
    await visitor.until(`document.querySelector(".file audio")?.src.startsWith("data:audio/wav")`);
    await outputs();
    await visitor.until(`document.querySelector(".result audio")?.duration > 0.1`);
  });

  test("the request that the page shows in curl, TypeScript and Python equals the page's own, for any typed and chosen values", async () => {
    const { visitor, kinds } = given();
    await using proxy = pageProxy(kinds);
    await using dir = await tempDir();
    const bytes = await white();
    await Bun.write(dir.join("picture.png"), bytes);
    await visitor.open(proxy.url);
    await visitor.write("/0/said", 'it\'s "$HOME" `date` \\ null');
    await visitor.reveal("/0/picture");
    await visitor.choose(".file [type=file]", { name: "white.png", type: "image/png", bytes });
    await visitor.until(`document.querySelector(".file img") !== null`);
    await outputs();
    for (const [language, command] of [
      ["curl", "sh"],
      ["TypeScript", process.execPath],
      ["Python", "python3"],
    ] as const) {
      await visitor.click(language);
      await visitor.until(`document.querySelector(".tabs [aria-pressed=true]").textContent === "${language}"`);
      await visitor.click("Copy");
      await visitor.says("Copied");
      const text = await visitor.browser.evaluate<string>("navigator.clipboard.readText()");
      await Bun.write(dir.join("request.ts"), text);
      const child = Bun.spawn([command, "request.ts"], { cwd: dir.path, stdout: "pipe", stderr: "pipe" });
      const [said, problem] = await Promise.all([child.stdout.text(), child.stderr.text()]);
      // Python has parsed the whole program when it misses the package, which is enough.
      if (language === "Python" && problem.includes("No module named 'requests'")) continue;
      expect([await child.exited, said]).toEqual([0, expect.stringContaining("success")]);
      expect(proxy.posted.at(-1)).toEqual(proxy.posted[0]);
    }
  });
}
