/** Operates the page of a model in a browser: opens it, types, drops files and reads texts. */
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

  /** Opens a server's page on a screen of the usual size. Resolves once the page is complete. */
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

  /** Resolves once the run has this status. */
  comesTo(status: "Done" | "Done in part" | "Failed" | "Canceled" | "Refused"): Promise<void> {
    return this.until(`document.querySelector(".status span").textContent === "${status}"`);
  }

  /** The text of the first element that the selector finds. */
  text(selector: string): Promise<string> {
    return this.browser.evaluate(`document.querySelector(${JSON.stringify(selector)})?.textContent ?? "nothing"`);
  }

  /** @param name label of the button */
  async click(name: string): Promise<void> {
    const button = `[...document.querySelectorAll("button")].find(({ textContent }) => textContent === ${JSON.stringify(name)})`;
    await this.until(`${button} !== undefined`);
    await this.browser.evaluate(`${button}.click()`);
  }

  /** Adds the optional field of a JSON pointer, and waits until it has the focus. */
  async add(name: string, pointer: string): Promise<void> {
    await this.click(`+ ${name}`);
    await this.until(`document.activeElement.id === "field${pointer}"`);
  }

  run(): Promise<void> {
    return this.click("Run");
  }

  /** Types into the field of a JSON pointer. */
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
      // Chrome's developer tools run scripts regardless of the page's security policy.
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
