import type { Scene } from './scene.ts';

/** Orders for a sender: first the scene, then so many messages each time. */
export type SenderOrder = { scene: Scene } | { send: number };
/** Microseconds of the sender's CPU for an order. */
export interface SenderAnswer {
  cpu: number;
}

/** Sends so many messages and resolves when all are answered; rejects when one isn't taken. */
export type Sender = (count: number) => Promise<void>;

/** Serves the orders of the bench that forked this process. */
export function obeyAsSender(open: (scene: Scene) => Sender): void {
  let sender: Sender | undefined;

  async function serve(order: SenderOrder): Promise<void> {
    const before = process.cpuUsage();
    if ('scene' in order) sender = open(order.scene);
    else await sender?.(order.send);
    const { user, system } = process.cpuUsage(before);
    process.send?.({ cpu: user + system } satisfies SenderAnswer);
  }

  process.on('message', (order: SenderOrder) => void serve(order));
  process.on('disconnect', () => process.exit());
}
