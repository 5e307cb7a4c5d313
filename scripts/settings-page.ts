import { globSync, readFileSync } from 'node:fs';
import { environment as api } from '../services/api/src/environment.ts';
import { environmentSchema as cli } from '../services/cli/src/stack.ts';
import { environment as dashboard } from '../services/dashboard/src/environment.ts';
import { environment as deliveryWorker } from '../services/delivery-worker/src/environment.ts';
import { environment as deviceGateway } from '../services/device-gateway/src/environment.ts';
import { environment as scheduler } from '../services/scheduler/src/environment.ts';

const ROOT = new URL('../', import.meta.url);
/** Files with schemas of variables, each with a docstring. */
const SOURCES = ['packages/runtime/src/env.ts', 'services/*/src/environment.ts'];
const CLI_SOURCE = 'services/cli/src/stack.ts';

/** Variables with a secret, an address that may contain a password, or the path of a secret file. */
export const SECRETS: Readonly<Record<string, 'secret' | 'a secret file'>> = {
  MONGODB_URI: 'secret',
  REDIS_URL: 'secret',
  PRESENCE_REDIS_URL: 'secret',
  API_KEY_PEPPER: 'secret',
  DEVICE_AUTH_KEYS: 'secret',
  CREDENTIAL_KEYS: 'secret',
  OIDC_CLIENT_SECRET: 'secret',
  TLS_KEY_FILE: 'a secret file',
  CARILLON_API_KEY: 'secret',
  CARILLON_TOKEN: 'secret',
};

/** The part of an object schema of zod that the page needs. */
interface Schema {
  shape: Readonly<
    Record<string, { safeParse(value: unknown): { success: boolean; data?: unknown } }>
  >;
  toJSONSchema(options: { io: 'input'; unrepresentable: 'any' }): { properties?: object };
}

/** The part of a variable's JSON schema that the page shows. */
interface Constraints {
  default?: unknown;
  enum?: readonly string[];
  minimum?: number;
  maximum?: number;
}

/** Default and range of a variable of one service. */
interface Setting {
  service: string;
  name: string;
  defaultText: string;
  values: string;
}

const SERVICES: Readonly<Record<string, Schema>> = {
  api,
  dashboard,
  'delivery-worker': deliveryWorker,
  'device-gateway': deviceGateway,
  scheduler,
};

/** Reads the docstring of each variable. A variable that two files describe must have the same text in both. */
function readMeanings(paths: readonly string[]): Map<string, string> {
  const meanings = new Map<string, string>();
  for (const path of paths) {
    const source = readFileSync(new URL(path, ROOT), 'utf8');
    const documented = source.matchAll(/\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*([A-Z][A-Z0-9_]*):/g);
    for (const [, comment = '', name = ''] of documented) {
      const meaning = comment.replaceAll(/\s*\n\s*\* ?/g, ' ').trim();
      const other = meanings.get(name);
      if (other !== undefined && other !== meaning) {
        throw new Error(`${name} has two meanings: "${other}" and "${meaning}"`);
      }
      meanings.set(name, meaning);
    }
  }
  return meanings;
}

function listSettings(service: string, schema: Schema): Setting[] {
  const { properties = {} } = schema.toJSONSchema({ io: 'input', unrepresentable: 'any' });
  const constraints = properties as Record<string, Constraints>;
  return Object.entries(schema.shape).map(([name, setting]) => {
    const { success, data } = setting.safeParse(undefined);
    const value = constraints[name]?.default ?? data;
    return {
      service,
      name,
      defaultText: success ? formatDefault(value) : '**required**',
      values: formatValues(constraints[name]),
    };
  });
}

function formatDefault(value: unknown): string {
  if (value === undefined) return '';
  if (value === '') return 'empty';
  if (typeof value !== 'object' || value === null) return `\`${String(value)}\``;
  const { host, port } = value as { host?: string; port?: number };
  if (host === undefined) throw new Error(`no text for ${JSON.stringify(value)}`);
  return `\`${host}:${port}\``;
}

function formatValues({ enum: words, minimum, maximum }: Constraints = {}): string {
  if (words !== undefined) return words.join(', ');
  if (minimum === undefined) return '';
  const isBounded = maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER;
  return isBounded ? `${minimum} to ${maximum}` : `${minimum} or more`;
}

/** Renders a row for each variable; services that share a variable share its row. */
function renderRows(settings: readonly Setting[], meanings: ReadonlyMap<string, string>): string[] {
  const names = [...new Set(settings.map(({ name }) => name))];
  return names.map((name) => {
    const same = settings.filter((setting) => setting.name === name);
    const services =
      same.length === Object.keys(SERVICES).length
        ? 'all'
        : same.map(({ service }) => service).join(', ');
    const values = new Set(same.map((setting) => setting.values));
    const meaning = meanings.get(name);
    if (meaning === undefined) throw new Error(`${name} has no docstring`);
    if (values.size !== 1) throw new Error(`${name} has several ranges: ${[...values].join('; ')}`);
    const details = [renderDefaults(same), ...values, SECRETS[name] ?? '']
      .filter(Boolean)
      .join('; ');
    const cells = [`\`${name}\``, ...(services === 'cli' ? [] : [services]), details, meaning];
    return `| ${cells.join(' | ')} |`;
  });
}

/** Renders the default; where services differ, each with its services. */
function renderDefaults(settings: readonly Setting[]): string {
  const texts = [...new Set(settings.map(({ defaultText }) => defaultText))];
  if (texts.length === 1) return texts.join('');
  const servicesOf = (text: string) =>
    settings.filter(({ defaultText }) => defaultText === text).map(({ service }) => service);
  return texts.map((text) => `${text || 'unset'} (${servicesOf(text).join(', ')})`).join(', ');
}

/** Lists the names of all variables, those of the command line too. */
export function listVariables(): string[] {
  return [...Object.values(SERVICES), cli].flatMap(({ shape }) => Object.keys(shape));
}

/** Renders docs/run/settings.md from the schemas that the services read their environment with. */
export function renderSettingsPage(): string {
  const settings = Object.entries(SERVICES).flatMap(([name, schema]) => listSettings(name, schema));
  const meanings = readMeanings(globSync(SOURCES, { cwd: ROOT }).sort());
  const known = new Set(settings.map(({ name }) => name));
  const ofCli = listSettings('cli', cli).map((setting) =>
    setting.name === 'CARILLON_HOME' ? { ...setting, defaultText: '`.carillon`' } : setting,
  );
  const ownOfCli = ofCli.filter(({ name }) => !known.has(name));
  const sharedOfCli = ofCli.filter(({ name }) => known.has(name)).map(({ name }) => `\`${name}\``);
  return `<!-- Written by \`npm run docs:settings\` from the services' schemas; change those. -->

# Settings

Every setting is an environment variable, read once at the start: **a change needs a restart**. A process with a wrong or missing
value ends and lists all mistakes. An empty value counts as absent. Every variable \`NAME\` can also be given as \`NAME_FILE\`, the
path of a file with the value. Give secrets this way: who can inspect a container sees its environment. Settings without a default
are unset. Commas separate the values of a list.

| variable | services | default; values | meaning |
|---|---|---|---|
${renderRows(settings, meanings).join('\n')}

\`API_KEY_PEPPER\`, \`DEVICE_AUTH_KEYS\` and \`CREDENTIAL_KEYS\` must be the same in all processes.

## The command line

Without these variables \`carillon\` takes the addresses and secrets of the stack that \`npm start\` runs in \`CARILLON_HOME\`.
Elsewhere it needs \`MONGODB_URI\`, and for \`doctor\` and \`queues\` also \`REDIS_URL\`. With \`CARILLON_CONSOLE\` and \`CARILLON_TOKEN\`
(\`carillon operator token create\`) administrative commands need neither and have the rights of the token. \`carillon\` reads
${sharedOfCli.join(', ')}, and:

| variable | default | meaning |
|---|---|---|
${renderRows(ownOfCli, readMeanings([CLI_SOURCE])).join('\n')}

The variables of \`npm start\`, which a deployment does not use, are in [first-run.md](first-run.md#variables).
`;
}
