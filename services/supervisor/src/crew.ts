import { Child } from './child.ts';
import type { ChildPlan } from './child-plan.ts';
import type { Home } from './home.ts';
import { createRegister, type Register } from './register.ts';

/** Longer than a service gives itself (runtime's stop deadline), so that none is cut off in the middle. */
const SERVICE_PATIENCE_MS = 25_000;
const SERVER_PATIENCE_MS = 60_000;
const HURRIED_SERVER_PATIENCE_MS = 3000;
const SERVERS = ['redis', 'mongodb'];

/** The order of a stop: who brings work in first, who keeps its records last. */
const STOP_ORDER = [
  'simulated device',
  'api',
  'scheduler',
  'delivery-worker',
  'sandbox',
  'device-gateway',
  ...SERVERS,
];

/** All processes of a stack. */
export interface Crew {
  register: Register;
  /** Starts processes side by side; resolves when all of them are ready. */
  start(plans: readonly ChildPlan[]): Promise<void>;
  /** Ends all in order, each kind before the next. */
  stop(): Promise<void>;
  /** Makes a stop under way a quick one. */
  hurry(): void;
}

/** Makes an empty crew. */
export function createCrew(home: Home, say: (line: string) => void): Crew {
  const children: Child[] = [];
  const register = createRegister(home, () => children);
  const isServer = ({ plan }: Child) => SERVERS.includes(plan.service);
  return {
    register,
    start: async (plans) => {
      const added = plans.map((plan) => new Child(plan, { changed: register.changed, say }));
      children.push(...added);
      await Promise.all(added.map((child) => child.start()));
    },
    stop: async () => {
      register.stopped();
      for (const service of STOP_ORDER) {
        const kind = children.filter(({ plan }) => plan.service === service);
        const patienceMs = SERVERS.includes(service) ? SERVER_PATIENCE_MS : SERVICE_PATIENCE_MS;
        await Promise.all(kind.map((child) => child.stop(patienceMs)));
      }
      register.close();
    },
    hurry: () => {
      for (const child of children) {
        void child.stop(isServer(child) ? HURRIED_SERVER_PATIENCE_MS : 0);
      }
    },
  };
}
