/** A visitor of a model's page in a browser, who types, chooses files and reads texts. */
import axe from "axe-core";
import { type Browser, openBrowser } from "./browser.ts";

export interface GivenFile {
  readonly name: string;
  readonly type: string;
  readonly bytes: Uint8Array;
}

export class Visitor implements AsyncDisposable {
  readonly browser: Browser;
  /** Origins of the servers whose pages were opened. */
  readonly origins = new Set<string>();

  private constructor(browser: Browser) {
    this.browser = browser;
  }

  /** @param names host names that the browser resolves to 127.0.0.1 */
  static async arrives(names?: readonly string[]): Promise<Visitor> {
    return new Visitor(await openBrowser(names));
  }

  /** Opens the page of a server in a window of 1280 × 900 pixels. Resolves once the page is complete. */
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

  /** Resolves once the page shows this status of the run. */
  comesTo(status: "Done" | "Failed" | "Canceled" | "Refused"): Promise<void> {
    return this.until(`document.querySelector(".status span").textContent === "${status}"`);
  }

  /** Text of the first element that the CSS selector finds; "nothing" if there is none. */
  text(selector: string): Promise<string> {
    return this.browser.evaluate(`document.querySelector(${JSON.stringify(selector)})?.textContent ?? "nothing"`);
  }

  /** Clicks a button once it exists. @param name text of the button */
  async click(name: string): Promise<void> {
    const button = `[...document.querySelectorAll("button")].find(({ textContent }) => textContent === ${JSON.stringify(name)})`;
    await this.until(`${button} !== undefined`);
    await this.browser.evaluate(`${button}.click()`);
  }

  /** Shows the form's optional fields, and focuses one of them. @param pointer JSON pointer of the field */
  async reveal(pointer: string): Promise<void> {
    const field = `document.getElementById("field${pointer}")`;
    await this.until(`${field} !== null`);
    await this.browser.evaluate(`${field}.closest("details").open = true`);
    await this.browser.evaluate(`${field}.focus()`);
  }

  run(): Promise<void> {
    return this.click("Run");
  }

  /** Replaces the text in a field by typing. @param pointer JSON pointer of the field */
  async write(pointer: string, text: string): Promise<void> {
    await this.until(`document.getElementById("field${pointer}") !== null`);
    await this.browser.evaluate(`document.getElementById("field${pointer}").select()`);
    await this.browser.view.type(text);
  }

  /** Presses Tab until an element that the CSS selector matches has the focus. */
  async tabTo(selector: string): Promise<void> {
    for (let presses = 0; presses < 40; presses++) {
      await this.browser.view.press("Tab");
      if (await this.browser.evaluate(`document.activeElement.matches(${JSON.stringify(selector)})`)) return;
    }
    throw new Error(`the keyboard does not come to ${selector}`);
  }

  /** Chooses a file. @param selector CSS selector of the file input */
  async choose(selector: string, { name, type, bytes }: GivenFile): Promise<void> {
    await this.browser.evaluate(`(() => {
      const chosen = new DataTransfer();
      const bytes = Uint8Array.from(atob("${bytes.toBase64()}"), (letter) => letter.charCodeAt(0));
      chosen.items.add(new File([bytes], "${name}", { type: "${type}" }));
      const input = document.querySelector(${JSON.stringify(selector)});
      input.files = chosen.files;
      input.dispatchEvent(new Event("change"));
    })()`);
  }

  /** Elements of the page that violate axe's rules for screen readers, keyboards and contrast. */
  async violations(): Promise<string[]> {
    if (!(await this.browser.evaluate<boolean>("'axe' in window"))) {
      // Runs axe through Chrome's developer tools, which ignore the page's security policy.
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
