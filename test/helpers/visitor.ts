/** Somebody who uses the page of a model in a browser: opens it, writes, drops files, reads what it says. */
import axe from "axe-core";
import { type Browser, openBrowser } from "./browser.ts";

export interface GivenFile {
  readonly name: string;
  readonly type: string;
  readonly bytes: Uint8Array;
}

export class Visitor implements AsyncDisposable {
  readonly browser: Browser;
  /** Servers whose pages were opened. */
  readonly origins = new Set<string>();

  private constructor(browser: Browser) {
    this.browser = browser;
  }

  static async arrives(): Promise<Visitor> {
    return new Visitor(await openBrowser());
  }

  /** Opens the page of a server, on a screen of the usual size, and waits until it is there. */
  async open(url: URL | string): Promise<void> {
    await this.goTo(url);
    await this.until(`document.querySelector('button[type="submit"]') !== null`);
  }

  async goTo(url: URL | string): Promise<void> {
    this.origins.add(new URL(url).origin);
    await this.browser.look({});
    await this.browser.open(url);
  }

  until(script: string): Promise<void> {
    return this.browser.until(script);
  }

  says(text: string): Promise<void> {
    return this.until(`document.body.innerText.includes(${JSON.stringify(text)})`);
  }

  /** Resolves once the run has come to this. */
  comesTo(status: "Done" | "Done in part" | "Failed" | "Canceled" | "Refused"): Promise<void> {
    return this.until(`document.querySelector(".status span").textContent === "${status}"`);
  }

  /** The text of the first element that the selector finds. */
  text(selector: string): Promise<string> {
    return this.browser.evaluate(`document.querySelector(${JSON.stringify(selector)})?.textContent ?? "nothing"`);
  }

  /** @param name that the button shows */
  async click(name: string): Promise<void> {
    const button = `[...document.querySelectorAll("button")].find(({ textContent }) => textContent === ${JSON.stringify(name)})`;
    await this.until(`${button} !== undefined`);
    await this.browser.evaluate(`${button}.click()`);
  }

  /** Adds the field of a JSON pointer, which may be left out, and awaits that it has the focus. */
  async add(name: string, pointer: string): Promise<void> {
    await this.click(`+ ${name}`);
    await this.until(`document.activeElement.id === "field${pointer}"`);
  }

  run(): Promise<void> {
    return this.click("Run");
  }

  /** Writes into the field of a JSON pointer, as fingers do. */
  async write(pointer: string, text: string): Promise<void> {
    await this.until(`document.getElementById("field${pointer}") !== null`);
    await this.browser.evaluate(`document.getElementById("field${pointer}").select()`);
    await this.browser.view.type(text);
  }

  /** Presses Tab until an element of the selector has the focus. */
  async tabTo(selector: string): Promise<void> {
    for (let presses = 0; presses < 40; presses++) {
      await this.browser.view.press("Tab");
      if (await this.browser.evaluate(`document.activeElement.matches(${JSON.stringify(selector)})`)) return;
    }
    throw new Error(`the keyboard does not come to ${selector}`);
  }

  async drop(selector: string, { name, type, bytes }: GivenFile): Promise<void> {
    await this.browser.evaluate(`(() => {
      const dataTransfer = new DataTransfer();
      const bytes = Uint8Array.from(atob("${bytes.toBase64()}"), (letter) => letter.charCodeAt(0));
      dataTransfer.items.add(new File([bytes], "${name}", { type: "${type}" }));
      const event = new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true });
      document.querySelector(${JSON.stringify(selector)}).dispatchEvent(event);
    })()`);
  }

  /** Violations of axe rules for screen readers, keyboards and contrast. */
  async violations(): Promise<string[]> {
    if (!(await this.browser.evaluate<boolean>("'axe' in window"))) {
      // Without a look at the page's security policy, as from the browser's own tools.
      await this.browser.view.cdp("Runtime.evaluate", { expression: axe.source });
    }
    return this.browser.evaluate(
      `axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
        violations.flatMap(({ id, nodes }) => nodes.map(({ html, any }) => id + ": " + html + " " + any.map(({ message }) => message))))`,
    );
  }

  [Symbol.asyncDispose](): PromiseLike<void> {
    return this.browser[Symbol.asyncDispose]();
  }
}
