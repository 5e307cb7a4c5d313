import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { compileFunction } from 'node:vm';
import { ModuleGraph } from './module-graph.ts';

/** The compiled parts of Jest that each test file evaluates for itself, by path. */
const compiled = new Map();

/**
 * Loads the modules of a test file of the tier `fast`, in place of Jest's runtime; it has the methods that Jest's runner
 * calls. Jest's own evaluates all packages and most of Jest again for each file, which takes more time than most of the
 * tests do. In this tier are no module mocks, no transforms of packages, and no coverage.
 */
export default class FastRuntime {
  #graph;

  constructor(_config, environment, resolver, transformer) {
    const conditions = ['import', 'module-sync', 'default', ...environment.exportConditions()];
    this.#graph = new ModuleGraph(resolver, transformer, conditions);
  }

  unstable_shouldLoadAsEsm() {
    return true;
  }

  unstable_importModule(path) {
    return this.#graph.import(path);
  }

  requireModule(path) {
    return createRequire(path)(path);
  }

  /** Evaluates the part of Jest that collects and runs tests. It has state, so each test file gets its own. */
  requireInternalModule(path) {
    const run = compiled.get(path) ?? compileCommonJs(path);
    compiled.set(path, run);
    const module = { exports: {} };
    run(module, module.exports, createRequire(path));
    return module.exports;
  }

  /** Sets what `@jest/globals` exports. */
  setGlobalsForRuntime(globals) {
    this.#graph.globals = globals;
  }

  getSourceMaps() {
    return this.#graph.sourceMaps;
  }

  getAllCoverageInfoCopy() {
    return undefined;
  }

  enterTestCode() {}

  leaveTestCode() {}

  teardown() {
    this.#graph.clear();
  }
}

function compileCommonJs(path) {
  const source = readFileSync(path, 'utf8');
  return compileFunction(source, ['module', 'exports', 'require'], { filename: path });
}
