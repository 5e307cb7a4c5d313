import { isAbsolute, relative } from 'node:path';
import type { Handover } from './handover.ts';
import type { Running } from './stack.ts';

/** What the first look at a running stack should say; every command works as printed. */
export function banner(handover: Handover, running: Running): string {
  const seconds = ((Date.now() - handover.startedAt) / 1000).toFixed(1);
  const lines = [
    '',
    `Carillon ${handover.version} runs (started in ${seconds} s).`,
    '',
    `  API      ${running.api}`,
    `  API key  ${running.apiKey}`,
    `  App      ${running.app}`,
    `  Sandbox  ${running.sandbox} plays Apple, Google and a browser's push service`,
    `  Demo     ${demoPage(running)}`,
    `  Data     ${handover.home}`,
    `  Servers  ${serverLine(handover)}`,
    '',
    ...tryIt(handover, running),
    'Stop it with Ctrl-C.',
    '',
  ];
  return lines.join('\n');
}

/** A page that receives pushes in any browser that is told to use the sandbox. */
function demoPage({ sandbox, api, app }: Running): string {
  return `${sandbox}/demo/?api=${encodeURIComponent(api)}&app=${app}`;
}

function serverLine({ redis, mongod }: Handover): string {
  const redisLine = redis === undefined ? 'Redis as REDIS_URL says' : `Redis ${redis.version}`;
  const mongoLine =
    mongod === undefined ? 'MongoDB as MONGODB_URI says' : `MongoDB ${mongod.version}`;
  return `${redisLine}, ${mongoLine}`;
}

function tryIt(handover: Handover, { api, apiKey, device }: Running): string[] {
  if (device === undefined) return [];
  if (device.token === undefined) {
    return [`The simulated device is not connected yet; ${device.log} says why.`, ''];
  }
  const last = quote(shown(handover, `${handover.home}/last-push.json`));
  const body = JSON.stringify({ to: device.token, data: { message: 'Hello from Carillon' } });
  const id = `$(sed 's/.*"id": *"\\([^"]*\\)".*/\\1/' ${last})`;
  return [
    `Try it in a second terminal, in ${handover.root}:`,
    '',
    '  # send a push to the simulated device',
    `  curl -s -H 'Content-Type: application/json' -d ${quote(body)} ${quote(`${api}/push?api_key=${apiKey}`)} | tee ${last}`,
    '',
    '  # watch it arrive (the last three, then each as it comes)',
    `  tail -n 3 -f ${quote(shown(handover, device.log))}`,
    '',
    '  # read its status',
    `  curl -s "${api}/pushes/${id}?api_key=${apiKey}"`,
    '',
  ];
}

function shown({ root }: Handover, path: string): string {
  const near = relative(root, path);
  return near.startsWith('..') || isAbsolute(near) ? path : near;
}

function quote(text: string): string {
  return /^[\w./:@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
