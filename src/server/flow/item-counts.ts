/** How many inputs wait for their forward pass, and how many are in one. Of a list that was ended nothing is counted any more. */
import type { ItemList } from "./item-list.ts";

export class ItemCounts {
  /** That wait for their turn, their files, `preprocess` or a batch. */
  unsent = 0;
  /** In a batch. */
  running = 0;

  came(list: ItemList): void {
    list.unsent = list.count;
    this.unsent += list.count;
  }

  dispatched(list: ItemList): void {
    if (!list.isOver) this.#move(list, -1, 1);
  }

  /** @param wasSent whether it came to a batch */
  ended(list: ItemList, wasSent: boolean): void {
    if (!list.isOver) this.#move(list, wasSent ? 0 : -1, wasSent ? -1 : 0);
  }

  /** The list was ended, with all that is left of it. */
  left(list: ItemList): void {
    this.#move(list, -list.unsent, -list.running);
  }

  #move(list: ItemList, unsent: number, running: number): void {
    list.unsent += unsent;
    list.running += running;
    this.unsent += unsent;
    this.running += running;
  }
}
