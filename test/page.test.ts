/** The model's page in a browser. */
import { describe, expect, test } from "bun:test";
import { fileURLToPath } from "node:url";
import { hasBrowser } from "./helpers/browser.ts";
import { run } from "./helpers/child-output.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { hold } from "./helpers/hold.ts";
import { writeModel } from "./helpers/model-text.ts";
import { pageProxy } from "./helpers/page-proxy.ts";
import { modelFolder, storeWith } from "./helpers/server.ts";
import { Visitor } from "./helpers/visitor.ts";

const example = (name: string) => fileURLToPath(new URL(`../examples/${name}`, import.meta.url));

const store = fixture(async () => {
  await using folder = await tempDir();
  const kinds = await writeModel(folder, await Bun.file(new URL("page/kinds.ts", import.meta.url)).text());
  return await storeWith("stage", "parts", kinds, example("digits"), example("upscale"));
});
const stage = fixture(() => store.serve("stage"));

const white = () => Bun.file(`${modelFolder("picture")}/white.png`).bytes();

describe.skipIf(!hasBrowser)("in a browser (chromium-headless-shell of Debian)", () => {
  const visitor = fixture(() => Visitor.arrives(["demo.internal"]));
  const kinds = fixture(() => store.serve("kinds", { allowedHosts: ["demo.internal"] }));

  /** Takes a screenshot for the README, only with `SCONCE_SCREENSHOTS=1`. */
  const screenshot = async (name: string) => {
    if (!process.env.SCONCE_SCREENSHOTS) return;
    const picture = await visitor.browser.view.screenshot({ format: "webp", quality: 88 });
    await Bun.write(fileURLToPath(new URL(`../docs/${name}.webp`, import.meta.url)), picture);
  };

  test("a digit is read from the example; its scores are bars, and its heat map lies over the picture; the page has no accessibility faults", async () => {
    await using digits = await store.serve("digits");
    const { browser } = visitor;
    await visitor.open(digits.url);
    expect(await visitor.violations()).toEqual([]);
    await visitor.run();
    await visitor.comesTo("Done");
    await visitor.until(`document.querySelector(".compare") !== null`);
    expect(await visitor.text(".most td")).toBe("3");
    expect(await visitor.text(".logs pre")).toContain("a 3, score");
    await visitor.until(`[...document.images].every(({ complete, naturalWidth }) => complete && naturalWidth > 0)`);
    expect(await visitor.violations()).toEqual([]);
    await browser.look({ height: 820 });
    await screenshot("page-digits");
    await browser.look({ theme: "dark", width: 360, height: 740 });
    expect(await visitor.violations()).toEqual([]);
    expect(await browser.evaluate<boolean>("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
  });

  test("a chosen photograph is upscaled, and compared with the original by a slider", async () => {
    await using upscale = await store.serve("upscale");
    await visitor.open(upscale.url);
    const bytes = await Bun.file(`${example("upscale")}/samples/coffee.jpg`).bytes();
    await visitor.choose(".file [type=file]", { name: "coffee.jpg", type: "image/jpeg", bytes });
    await visitor.until(`document.querySelector(".file img").src.startsWith("data:image/jpeg")`);
    await visitor.run();
    await visitor.comesTo("Done");
    const widths = `[...document.querySelectorAll(".compare img")].map(({ naturalWidth }) => naturalWidth).join()`;
    await visitor.until(`${widths} === "480,240"`);
    await screenshot("page-upscale");
    const [output, input, half] = await visitor.browser.evaluate<string[]>(
      `[...document.querySelectorAll(".compare img")].map((each) => JSON.stringify(each.getBoundingClientRect())).concat(getComputedStyle(document.querySelector(".compare img + img")).clipPath)`,
    );
    expect([input, half]).toEqual([output, "inset(0px 50% 0px 0px)"]);
    await visitor.tabTo(".compare input");
    await visitor.browser.view.press("ArrowRight");
    await visitor.until(`getComputedStyle(document.querySelector(".compare img + img")).clipPath.includes(" 49% ")`);
    expect(await visitor.violations()).toEqual([]);
  });

  test("parts are shown as they arrive: texts grow, and the whole output replaces them", async () => {
    await using parts = await store.serve("parts");
    await using gate = hold();
    await visitor.open(parts.url);
    await visitor.reveal("/0/gate");
    await visitor.browser.view.type(gate.url(""));
    await visitor.write("/0/rounds", "0");
    await visitor.write("/0/words", '["one ", "two "]');
    await visitor.run();
    for (const [release, text] of [
      ["w0", "one "],
      ["w1", "one two "],
    ] as const) {
      gate.release(release);
      await visitor.until(`document.querySelector(".result dd")?.textContent === "${text}"`);
    }
    expect(await visitor.violations()).toEqual([]);
    gate.release("end");
    await visitor.comesTo("Done");
    await visitor.until(`document.querySelector(".result dd")?.textContent === "4"`);
  });

  test("a fault is shown at its field, which gets the focus", async () => {
    await visitor.open(stage.url);
    await visitor.write("/0/x", "many");
    await visitor.run();
    await visitor.until(`document.activeElement.matches('[id="field/0/x"][aria-invalid="true"]')`);
    expect(await visitor.text('[id="field/0/x-faults"]')).toContain("expected number");
    expect(await visitor.violations()).toEqual([]);
    await visitor.write("/0/x", "2.5");
    await visitor.run();
    await visitor.comesTo("Done");
    expect(await visitor.text(".stat")).toBe("3");
  });

  test("an input that fails shows its fault", async () => {
    await visitor.open(stage.url);
    await visitor.reveal("/0/fail");
    for (const key of ["ArrowDown", "ArrowDown"] as const) await visitor.browser.view.press(key);
    await visitor.run();
    await visitor.comesTo("Failed");
    expect(await visitor.text(".result .notice")).toEndWith(" preprocess");
  });

  test("everything can be done with the keyboard", async () => {
    const { view } = visitor.browser;
    await visitor.open(stage.url);
    await visitor.tabTo('[id="field/0/x"]');
    await view.press("a", { modifiers: ["Control"] });
    await view.type("20");
    await view.press("Enter", { modifiers: ["Control"] });
    await visitor.until(`document.querySelector(".stat")?.textContent === "20.5"`);
    await visitor.tabTo(".result summary");
    await view.press("Enter");
    await visitor.until(`document.querySelector(".logs").open`);
    await visitor.tabTo('.tabs [aria-pressed="false"]');
    await view.press("Enter");
    await visitor.until(`document.querySelector(".snippet pre").textContent.includes("await fetch")`);
    await visitor.tabTo(".under button");
    expect(await visitor.browser.evaluate<string>("getComputedStyle(document.activeElement).outlineStyle")).toBe(
      "solid",
    );
  });

  const outputs = async () => {
    await visitor.run();
    await visitor.comesTo("Done");
    return visitor.browser.evaluate<Record<string, string>>(
      `Object.fromEntries([...document.querySelectorAll("dl > div")].map((each) => [each.firstChild.textContent, each.lastChild.innerText]))`,
    );
  };

  test("the author sets titles, hidden fields and names of choices", async () => {
    await visitor.open(kinds.url);
    expect(await visitor.text("label")).toBe("What it says");
    expect(await visitor.text(".about")).toBe("Is said again.");
    expect(await visitor.text("select")).toBe("SmallLarge");
    expect(await visitor.browser.evaluate<string>("document.body.innerText")).not.toContain("Secret");
    const titles = ["It said", "Size", "Matrix", "Width", "Wave", "Tree"];
    const pictures = ["Scenes", "Same", "Wide", "Mask", "Swatches", "Found", "Name", "Crop"];
    expect(Object.keys(await outputs())).toEqual([...titles, ...pictures]);
  });

  test("outputs are shown by type: a word, numbers, JSON", async () => {
    await visitor.open(kinds.url);
    const { "It said": said, Wave, Tree } = await outputs();
    expect(said).toBe("hello");
    expect(Wave).toStartWith("[0,0.0998");
    expect(JSON.parse(Tree ?? "")).toEqual([{ branches: [["leaf"]] }]);
    expect(await visitor.violations()).toEqual([]);
  });

  test("files are shown by type, in a list and in objects", async () => {
    await visitor.open(kinds.url);
    const { Swatches, Found } = await outputs();
    const facts = /image\/png\s*· 1 × 1 · \d+ B\s*Save/g;
    expect([Swatches?.match(facts)?.length, Found]).toEqual([2, expect.stringContaining("image/png · 2 × 1 · ")]);
    const shown = await visitor.browser.evaluate<[string, number][]>(
      `[...document.querySelectorAll(".result ol img")].map((each) => [each.alt, each.naturalWidth])`,
    );
    expect(shown).toEqual([
      ["Swatches 1", 1],
      ["Swatches 2", 1],
      ["Crop", 2],
    ]);
    expect(await visitor.violations()).toEqual([]);
  });

  test("the input lies over a picture of the same shape only, and over no mask of classes", async () => {
    await visitor.open(kinds.url);
    await visitor.reveal("/0/picture");
    await visitor.choose(".file [type=file]", { name: "white.png", type: "image/png", bytes: await white() });
    await visitor.until(`document.querySelector(".file img") !== null`);
    await outputs();
    await visitor.until(`[...document.querySelectorAll(".result img")].every(({ naturalWidth }) => naturalWidth > 0)`);
    const shown = `[...document.querySelectorAll(".result figure > div")].slice(0, 3)`;
    await visitor.until(`${shown}.map((each) => each.className).join() === "compare,,"`);
  });

  test("a picture is pasted from the clipboard", async () => {
    await visitor.open(kinds.url);
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
    await visitor.open(kinds.url);
    await visitor.click("good evening");
    await visitor.until(`document.getElementById("field/0/said").value === "good evening"`);
    expect(await outputs()).toMatchObject({ "It said": "good evening", Size: "s" });
  });

  test("optional fields that stay empty are left out", async () => {
    await using proxy = pageProxy(kinds.url);
    await visitor.open(proxy.url);
    await visitor.reveal("/0/before");
    await visitor.browser.view.type("h");
    await visitor.browser.view.press("Backspace");
    await outputs();
    expect(proxy.posted).toEqual([[{ said: "hello", size: "l", secret: 3 }]]);
  });

  test("a missing camera is reported, and no picture can be taken", async () => {
    await visitor.open(kinds.url);
    await visitor.reveal("/0/picture");
    await visitor.browser.evaluate(
      `navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException("", "NotFoundError"))`,
    );
    await visitor.click("Camera");
    await visitor.says("This device has no camera.");
    expect(await visitor.text(".recorder video")).toBe("nothing");
    expect(await visitor.text(".recorder .row")).toBe("Close");
    await visitor.click("Close");
    await visitor.until(`document.querySelector(".recorder") === null`);
  });

  test("a computer's camera takes a picture", async () => {
    await visitor.open(kinds.url);
    await visitor.reveal("/0/picture");
    await visitor.click("Camera");
    await visitor.until(`document.querySelector("video")?.videoWidth > 0`);
    expect(await visitor.violations()).toEqual([]);
    await visitor.click("Take the picture");
    await visitor.until(`document.querySelector(".file img")?.src.startsWith("data:image/jpeg")`);
    expect(Number((await outputs()).Width)).toBeGreaterThan(0);
  });

  const buttons = `[...document.querySelectorAll(".file > button")].map(({ textContent }) => textContent).join()`;

  test.each([1280, 360])(
    "a sound is recorded with the microphone, and played again, in a window of %d pixels",
    async (width) => {
      await visitor.open(kinds.url);
      await visitor.browser.look({ width });
      await visitor.browser.open(kinds.url);
      await visitor.reveal("/0/sound");
      expect(await visitor.browser.evaluate<string>(buttons)).toBe("Camera,Microphone");
      await visitor.click("Microphone");
      // Waits for two seconds of sound: Chromium's fake microphone beeps once a second.
      await visitor.until(`parseFloat(document.querySelector(".recorder small")?.textContent) > 1`);
      await visitor.click("Stop");
      await visitor.until(`document.querySelector(".file audio")?.src.startsWith("data:audio/wav")`);
      await outputs();
      await visitor.until(`document.querySelector(".result audio")?.duration > 1`);
    },
  );

  test("over plain HTTP from another machine, the page records nothing", async () => {
    await visitor.open(`http://demo.internal:${new URL(kinds.url).port}/demo`);
    expect(await visitor.browser.evaluate<string>(buttons)).toBe("");
  });

  test("the request that the page shows in curl, TypeScript and Python equals the page's own, for any typed and chosen values", async () => {
    await using proxy = pageProxy(kinds.url);
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
      const { code, stdout, stderr } = await run([command, "request.ts"], { cwd: dir.path });
      // Python has parsed the whole program when it misses the package, which is enough.
      if (language === "Python" && stderr.includes("No module named 'requests'")) continue;
      expect([code, stdout]).toEqual([0, expect.stringContaining("success")]);
      expect(proxy.posted.at(-1)).toEqual(proxy.posted[0]);
    }
  });

  test("the documentation opens under its security policy", async () => {
    await visitor.goTo(`${stage.url}docs`);
    await visitor.until(`document.querySelector(".opblock") !== null`);
  });

  test("no request went to another server, and the console has no errors", () => {
    const { requests, errors } = visitor.browser;
    expect(requests.filter((url) => !visitor.origins.has(new URL(url).origin) && url !== "about:blank")).toEqual([]);
    expect(errors).toEqual([]);
  });
});
