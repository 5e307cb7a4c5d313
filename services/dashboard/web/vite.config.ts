import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

/** The development server passes the API on to a running dashboard service. */
const DASHBOARD = 'http://127.0.0.1:4010';

export default defineConfig({
  plugins: [react()],
  build: {
    target: 'es2022',
    // The inlined polyfill would need an exception in the Content-Security-Policy.
    modulePreload: { polyfill: false },
    // A data: URL needs an exception too.
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  worker: { format: 'es' },
  server: { proxy: { '/api': DASHBOARD, '/queues': DASHBOARD } },
});
