import { strict } from './strict.mjs';

/**
 * Test environment of the tier `fast`: Node's own realm instead of a new one for each file. In a new one V8 would look up
 * each use of a global (`Object`, `Math`, `process`) by a call of Jest, ten times as slow; every package would have to be
 * evaluated again for each file; and an `Error` of Node would be no `instanceof Error`, unlike in production.
 *
 * Files of one worker share the globals, so each gets them as the file before it found them.
 */
class OwnRealm {
  global = globalThis;
  // Files of this tier mock nothing and wait for real timers.
  fakeTimers = null;
  fakeTimersModern = null;
  moduleMocker = null;
  #globals = Object.getOwnPropertyDescriptors(globalThis);
  #env = { ...process.env };
  #exit = process.exit;

  async setup() {}

  async teardown() {
    // Jest wraps it for each file.
    process.exit = this.#exit;
    restoreProperties(globalThis, this.#globals);
    for (const name of Object.keys(process.env)) if (!(name in this.#env)) delete process.env[name];
    Object.assign(process.env, this.#env);
  }

  exportConditions() {
    return ['node', 'node-addons'];
  }

  /** Jest requires the method. Code that needs a context of `node:vm` would get none. */
  getVmContext() {
    return null;
  }
}

/** Removes what was added, and puts back what was replaced. */
function restoreProperties(object, before) {
  const now = Object.getOwnPropertyDescriptors(object);
  for (const key of Reflect.ownKeys(now)) {
    // A package keeps something of its own there.
    if (!now[key].configurable) continue;
    if (before[key] === undefined) delete object[key];
    else if (!isSame(now[key], before[key])) Object.defineProperty(object, key, before[key]);
  }
}

function isSame(a, b) {
  return a.value === b.value && a.get === b.get;
}

export default class FastEnvironment extends strict(OwnRealm) {}
