import type { Command } from 'commander';
import { z } from 'zod';
import { askApi } from './api.ts';
import { collected, jsonObjectText, wholeNumber } from './arguments.ts';
import { misused } from './failure.ts';
import { count, momentOf, type Output } from './output.ts';
import { addOutcomesCommand } from './push-outcomes.ts';
import { need, type Stack } from './stack.ts';

const ANY_SECONDS = wholeNumber(0, 99_999_999_999);

interface SendOptions {
  to?: string[];
  topic?: string[];
  data: string;
  ttl?: number;
  collapseKey?: string;
  schedule?: number;
}

/** `carillon push …`: send, and ask what became of it. */
export function addPushCommands(
  program: Command,
  { stack, output }: { stack: () => Stack; output: Output },
): void {
  const push = program.command('push').description('send pushes and see what became of them');

  async function ask(method: 'GET' | 'POST', path: string, body?: string): Promise<string> {
    const where = stack();
    const key = need(where, 'apiKey');
    return askApi(need(where, 'api'), { method, path, key, ...(body !== undefined && { body }) });
  }

  push
    .command('send')
    .description('send a push through the API')
    .option('--to <tokens>', 'device tokens, separated by commas; repeatable', collected)
    .option('--topic <names>', 'topics, separated by commas; repeatable', collected)
    .requiredOption('--data <json>', 'the payload, a JSON object', jsonObjectText)
    .option('--ttl <seconds>', 'time to live', ANY_SECONDS)
    .option('--collapse-key <key>', 'replaces pending pushes of the same key')
    .option('--schedule <unix seconds>', 'when to send', ANY_SECONDS)
    .action(async (options: SendOptions) => {
      const text = await ask('POST', '/push', sendBody(options));
      output.showText(text, answerInWords(text));
    });
  push
    .command('status')
    .description("a push's status as the API tells it")
    .argument('<id>')
    .action(async (id: string) => {
      const text = await ask('GET', `/pushes/${encodeURIComponent(id)}`);
      output.showText(text, statusInWords(id, text));
    });
  addOutcomesCommand(push, { stack, output });
}

/** The body of `POST /push`; the payload's text goes in unchanged, so that its numbers stay as written. */
function sendBody({ to = [], topic = [], data, ttl, collapseKey, schedule }: SendOptions): string {
  const recipients = [...to, ...topic.map((name) => `/topics/${name}`)];
  if (recipients.length === 0) throw misused('Say whom to send to, with --to or --topic.');
  const fields = JSON.stringify({
    to: recipients,
    time_to_live: ttl,
    collapse_key: collapseKey,
    schedule,
  });
  return `${fields.slice(0, -1)},"data":${data}}`;
}

const sendAnswer = z.object({
  id: z.string(),
  info: z.object({ devices: z.number(), failed: z.array(z.string()).default([]) }),
});

function answerInWords(text: string): string[] {
  const { id, info } = sendAnswer.parse(JSON.parse(text));
  const accepted = `Push ${id} accepted for ${count(info.devices, 'device')}.`;
  return info.failed.length === 0 ? [accepted] : [accepted, `Unknown: ${info.failed.join(', ')}`];
}

const statusAnswer = z.object({
  push: z.object({
    date: z.number(),
    expiration: z.number(),
    pending_devices: z.array(z.string()),
  }),
});

function statusInWords(id: string, text: string): string[] {
  const { date, expiration, pending_devices } = statusAnswer.parse(JSON.parse(text)).push;
  return [
    `Push ${id}: accepted ${momentOf(date)}, expires ${momentOf(expiration)}.`,
    `Pending on ${count(pending_devices.length, 'device')}.`,
    ...pending_devices.map((token) => `  ${token}`),
  ];
}
