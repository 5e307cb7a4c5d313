import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
} from '@tanstack/react-router';
import { keepText, parseSearch, stringifySearch } from './lib/search-text.ts';
import { Failure } from './parts/failure.tsx';
import { NotFound } from './shell/not-found.tsx';

const root = createRootRoute({ notFoundComponent: NotFound });

const login = createRoute({
  getParentRoute: () => root,
  path: '/login',
  validateSearch: keepText('next', 'error'),
  component: lazyRouteComponent(() => import('./pages/login-page.tsx'), 'LoginPage'),
});
const setup = createRoute({
  getParentRoute: () => root,
  path: '/setup',
  component: lazyRouteComponent(() => import('./pages/setup-page.tsx'), 'SetupPage'),
});
const shell = createRoute({
  getParentRoute: () => root,
  id: 'shell',
  component: lazyRouteComponent(() => import('./shell/shell.tsx'), 'Shell'),
});
const getParentRoute = () => shell;

const overview = createRoute({
  getParentRoute,
  path: '/',
  validateSearch: keepText('range'),
  component: lazyRouteComponent(() => import('./pages/overview-page.tsx'), 'OverviewPage'),
});
const apps = createRoute({
  getParentRoute,
  path: '/apps',
  validateSearch: keepText('account', 'cursor'),
  component: lazyRouteComponent(() => import('./pages/apps-page.tsx'), 'AppsPage'),
});
const app = createRoute({
  getParentRoute,
  path: '/apps/$app',
  validateSearch: keepText('tab'),
  component: lazyRouteComponent(() => import('./pages/app-page.tsx'), 'AppPage'),
});
const pushes = createRoute({
  getParentRoute,
  path: '/apps/$app/pushes',
  validateSearch: keepText('state', 'topic', 'token', 'outcome', 'range', 'from', 'to', 'cursor'),
  component: lazyRouteComponent(() => import('./pages/pushes-page.tsx'), 'PushesPage'),
});
const compose = createRoute({
  getParentRoute,
  path: '/apps/$app/compose',
  validateSearch: keepText('to'),
  component: lazyRouteComponent(() => import('./pages/compose-page.tsx'), 'ComposePage'),
});
const failures = createRoute({
  getParentRoute,
  path: '/apps/$app/failures',
  validateSearch: keepText('channel', 'reason', 'range', 'from', 'to', 'cursor', 'redrive'),
  component: lazyRouteComponent(() => import('./pages/failures-page.tsx'), 'FailuresPage'),
});
const devices = createRoute({
  getParentRoute,
  path: '/apps/$app/devices',
  validateSearch: keepText('cursor'),
  component: lazyRouteComponent(() => import('./pages/devices-page.tsx'), 'DevicesPage'),
});
const topics = createRoute({
  getParentRoute,
  path: '/apps/$app/topics',
  validateSearch: keepText('cursor'),
  component: lazyRouteComponent(() => import('./pages/topics-page.tsx'), 'TopicsPage'),
});
const topic = createRoute({
  getParentRoute,
  path: '/apps/$app/topics/$topic',
  validateSearch: keepText('cursor'),
  component: lazyRouteComponent(() => import('./pages/topic-page.tsx'), 'TopicPage'),
});
const push = createRoute({
  getParentRoute,
  path: '/pushes/$push',
  validateSearch: keepText('token', 'outcome', 'cursor'),
  component: lazyRouteComponent(() => import('./pages/push-page.tsx'), 'PushPage'),
});
const device = createRoute({
  getParentRoute,
  path: '/devices/$token',
  validateSearch: keepText('cursor'),
  component: lazyRouteComponent(() => import('./pages/device-page.tsx'), 'DevicePage'),
});
const accounts = createRoute({
  getParentRoute,
  path: '/accounts',
  validateSearch: keepText('cursor'),
  component: lazyRouteComponent(() => import('./pages/accounts-page.tsx'), 'AccountsPage'),
});
const queues = createRoute({
  getParentRoute,
  path: '/queues',
  component: lazyRouteComponent(() => import('./pages/queues-page.tsx'), 'QueuesPage'),
});
const operators = createRoute({
  getParentRoute,
  path: '/operators',
  validateSearch: keepText('cursor'),
  component: lazyRouteComponent(() => import('./pages/operators-page.tsx'), 'OperatorsPage'),
});
const audit = createRoute({
  getParentRoute,
  path: '/audit',
  validateSearch: keepText('actor', 'action', 'range', 'from', 'to', 'cursor'),
  component: lazyRouteComponent(() => import('./pages/audit-page.tsx'), 'AuditPage'),
});
const password = createRoute({
  getParentRoute,
  path: '/password',
  component: lazyRouteComponent(() => import('./pages/password-page.tsx'), 'PasswordPage'),
});

const appPages = [app, pushes, compose, failures, devices, topics, topic] as const;
const installationPages = [accounts, queues, operators, audit] as const;
const ownPages = [overview, apps, push, device, ...installationPages, password] as const;

/** All pages. Filters, tabs and cursors are plain text in the query. */
export const router = createRouter({
  routeTree: root.addChildren([login, setup, shell.addChildren([...appPages, ...ownPages])]),
  parseSearch,
  stringifySearch,
  defaultErrorComponent: ({ error, reset }) => <Failure error={error} retry={reset} />,
  scrollRestoration: true,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
