import { connect } from 'mqtt';
import { placeOf } from '../database.ts';
import { need, type Stack } from '../stack.ts';
import { type Finding, look } from './report.ts';

const DEADLINE_MS = 5_000;
const RETURN_CODE_MAX = 5;

/** Whether MQTT is spoken where devices connect: a stranger is answered, if only by a refusal. */
export function lookAtMqtt(stack: Stack): Promise<Finding> {
  return look('mqtt', async () => {
    const url = need(stack, 'mqtt');
    await knock(url);
    return `answers at ${placeOf(url)}`;
  });
}

async function knock(url: string): Promise<void> {
  const client = connect(url, {
    clientId: 'doctor',
    username: 'doctor',
    password: 'doctor',
    protocolVersion: 4,
    reconnectPeriod: 0,
    connectTimeout: DEADLINE_MS,
  });
  try {
    await new Promise<void>((resolve, reject) => {
      client.once('connect', () => resolve());
      client.once('close', () => reject(new Error(`${placeOf(url)} closes the link unanswered`)));
      client.on('error', (error) => {
        const code = 'code' in error ? error.code : undefined;
        const isAnswer = typeof code === 'number' && code >= 1 && code <= RETURN_CODE_MAX;
        if (isAnswer) resolve();
        else reject(error);
      });
    });
  } finally {
    client.end(true);
  }
}
