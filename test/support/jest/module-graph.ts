import { readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname, sep } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { type Module, SourceTextModule, SyntheticModule } from 'node:vm';

const PACKAGES = `${sep}node_modules${sep}`;
const OWN_CODE = /\.m?[jt]s$/;
const JEST_GLOBALS = '@jest/globals';

/** The options of Jest's transformers about the syntax that Node supports. */
const TRANSFORM_OPTIONS = {
  isInternalModule: false,
  supportsDynamicImport: true,
  supportsExportNamespaceFrom: true,
  supportsStaticESM: true,
  supportsTopLevelAwait: true,
  collectCoverage: false,
  collectCoverageFrom: [],
  coverageProvider: 'v8',
};

/** Jest's resolver: finds the file of a module, and remembers it for all test files of a worker. */
export interface Resolver {
  resolveModule(from: string, name: string, options: { conditions: string[] }): string;
}

/** Jest's transformer, with its cache on disk. */
export interface Transformer {
  transform(
    path: string,
    options: typeof TRANSFORM_OPTIONS,
    source: string,
  ): { code: string; sourceMapPath?: string | null };
}

/**
 * Modules of Node and of packages, by path or name, for all test files of a worker. Node loads them. To share them is as
 * safe as in production, where all parts of a process do: what a package keeps, it keeps in the objects that its callers
 * make, or on the global object, which the environment restores.
 */
const shared = new Map<string, Promise<Module>>();

/** The modules of a test file. Those of this repository are evaluated for each test file: none sees another's state. */
export class ModuleGraph {
  /** Exports of `@jest/globals`. */
  globals: Record<string, unknown> = {};
  /** Where the source map of each module is. */
  readonly sourceMaps = new Map<string, string>();
  readonly #modules = new Map<string, Module>();
  readonly #resolver: Resolver;
  readonly #transformer: Transformer;
  readonly #conditions: { conditions: string[] };
  /** The end of the last link. Of two at once, each would take what they share for linked by the other. */
  #linked: Promise<unknown> = Promise.resolve();

  constructor(resolver: Resolver, transformer: Transformer, conditions: string[]) {
    this.#resolver = resolver;
    this.#transformer = transformer;
    this.#conditions = { conditions };
  }

  /** Imports a module of this repository and returns its namespace. */
  async import(path: string): Promise<object> {
    const module = this.#load(path);
    await this.#evaluate(module);
    return module.namespace;
  }

  /** Releases all modules: something that a test left behind may reference the graph. */
  clear(): void {
    this.#modules.clear();
  }

  async #evaluate(module: Module): Promise<void> {
    const linked = this.#linked.then(async () => {
      if (module.status === 'unlinked') await module.link(this.#link);
    });
    this.#linked = linked.catch(() => undefined);
    await linked;
    await module.evaluate();
  }

  #link = (name: string, { identifier }: { identifier: string }): Module | Promise<Module> => {
    if (name === JEST_GLOBALS) return this.#jestGlobals();
    const path = this.#resolve(name, identifier);
    return isOwn(path) ? this.#load(path) : loadShared(path);
  };

  #resolve(name: string, from: string): string {
    if (isBuiltin(name)) return name;
    const nameOrPath = name.startsWith('file:') ? fileURLToPath(name) : name;
    return this.#resolver.resolveModule(from, nameOrPath, this.#conditions);
  }

  #load(path: string): Module {
    const module = this.#modules.get(path) ?? this.#create(path);
    this.#modules.set(path, module);
    return module;
  }

  #create(path: string): Module {
    const source = readFileSync(path, 'utf8');
    const { code, sourceMapPath } = this.#transformer.transform(path, TRANSFORM_OPTIONS, source);
    if (sourceMapPath) this.sourceMaps.set(path, sourceMapPath);
    return new SourceTextModule(code, {
      identifier: path,
      initializeImportMeta: (meta) =>
        Object.assign(meta, {
          url: pathToFileURL(path).href,
          filename: path,
          dirname: dirname(path),
        }),
      importModuleDynamically: async (name) => {
        const module = await this.#link(name, { identifier: path });
        await this.#evaluate(module);
        return module;
      },
    });
  }

  #jestGlobals(): Module {
    const module =
      this.#modules.get(JEST_GLOBALS) ?? createModule(JEST_GLOBALS, Object.entries(this.globals));
    this.#modules.set(JEST_GLOBALS, module);
    return module;
  }
}

function isOwn(path: string): boolean {
  return OWN_CODE.test(path) && !path.includes(PACKAGES);
}

function loadShared(path: string): Promise<Module> {
  const module = shared.get(path) ?? importShared(path);
  shared.set(path, module);
  return module;
}

async function importShared(path: string): Promise<Module> {
  const url = isBuiltin(path) ? path : pathToFileURL(path).href;
  const options = path.endsWith('.json') ? { with: { type: 'json' } } : undefined;
  return createModule(path, Object.entries(await import(url, options)));
}

function createModule(identifier: string, exported: [name: string, value: unknown][]): Module {
  const names = exported.map(([name]) => name);
  return new SyntheticModule(
    names,
    function () {
      for (const [name, value] of exported) this.setExport(name, value);
    },
    { identifier },
  );
}
