import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../../../packages/presence/test/start-server.ts';
import { DATA_SERVERS, type Engine, PROXY_IMAGE, ROOT } from './engine.ts';

const run = promisify(execFile);
const COMMAND_MS = 150_000;
/** What the commands need of a checkout. */
const FILES = ['docker-compose.yml', 'deploy'];
/** What the page's placeholders stand for, in the outputs of earlier commands. */
const PLACEHOLDERS: Readonly<Record<string, RegExp>> = {
  'account id': /Account (\w+) created/,
  'app id': /App (\w+) created/,
  key: /API key, shown only once: (\w+)/,
  'device token': /"token":"(\w+)"/,
  auth: /"auth":"(\w+)"/,
  'push id': /"id":"(\w+)"/,
  link: /(https?:\S+\/setup#token=\S+)/,
};
/** Variables of `.env` with published ports: here free ones. */
const PORTS = [
  'API_PORT',
  'CONSOLE_PORT',
  'MQTT_PORT',
  'MQTTS_PORT',
  'MQTT_WS_PORT',
  'PROXY_HTTPS_PORT',
  'PROXY_MQTTS_PORT',
] as const;

/** A user with a scratch folder, in which podman is the only engine. */
export interface NewUser {
  folder: string;
  ports: Record<(typeof PORTS)[number], number>;
  /** Runs a command, with the values of its placeholders. @returns its output */
  run(command: string): Promise<string>;
  /** Returns what a placeholder stands for. */
  lookUp(placeholder: string): string;
}

/** @param prelude defines what all commands need */
export async function createNewUser(engine: Engine, prelude: string): Promise<NewUser> {
  const folder = join(engine.folder, 'user');
  mkdirSync(folder);
  for (const name of FILES) cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  const entries = await Promise.all(PORTS.map(async (name) => [name, await freePort()] as const));
  const ports = Object.fromEntries(entries) as NewUser['ports'];
  const images = { ...DATA_SERVERS, HAPROXY_IMAGE: PROXY_IMAGE };
  const variables = Object.entries({ ...ports, ...images, PROXY_BIND: '127.0.0.1' });
  writeFileSync(
    join(folder, '.env'),
    variables.map(([name, value]) => `${name}=${value}\n`).join(''),
  );
  // Instead of DNS, and of the ports that the page names.
  const { API_PORT: api, PROXY_HTTPS_PORT: https } = ports;
  const moved = [
    `127.0.0.1:4000:127.0.0.1:${api}`,
    `push.example.com:443:127.0.0.1:${https}`,
    `console.push.example.com:443:127.0.0.1:${https}`,
  ];
  writeFileSync(join(folder, '.curlrc'), moved.map((one) => `connect-to = ${one}\n`).join(''));
  const env = { PATH: `${engine.programs}:${process.env.PATH}`, CURL_HOME: folder };
  const known = new Map<string, string>();
  const lookUp = (name: string) => known.get(name) ?? `<${name}>`;
  return {
    ...{ folder, ports, lookUp },
    async run(command) {
      const text = command.replaceAll(/<([a-z ]+)>/g, (_all, name: string) => lookUp(name));
      const options = { cwd: folder, env, timeout: COMMAND_MS };
      const { stdout } = await run('bash', ['-ec', `${prelude}\n${text}`], options);
      for (const [name, pattern] of Object.entries(PLACEHOLDERS)) {
        const [, value] = pattern.exec(stdout) ?? [];
        if (value !== undefined) known.set(name, value);
      }
      return stdout;
    },
  };
}

/** Splits a block into its commands, each with its continued lines and its here-document. */
export function listCommands(block: string): string[] {
  return block.match(/^.*<<'EOF'\n[\s\S]*?\nEOF$|^(?:.*\\\n)*.+$/gm) ?? [];
}
