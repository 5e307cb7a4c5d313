import { TestEnvironment as NodeEnvironment } from 'jest-environment-node';
import { lend, releaseLent } from './lent-stack.ts';
import { strict } from './strict.mjs';

/** Node's test environment, strict, and with `globalThis.lendStack`, which returns the shared stack. */
export default class StrictEnvironment extends strict(NodeEnvironment) {
  #hasBorrowed = false;

  async setup() {
    await super.setup();
    this.global.lendStack = () => {
      this.#hasBorrowed = true;
      return lend();
    };
  }

  async handleTestEvent(event, state) {
    await super.handleTestEvent(event, state);
    if (event.name === 'run_finish' && this.#hasBorrowed) {
      await releaseLent(this.global.failures).catch((error) => this.fail(state, error));
    }
  }
}
