import react from '@vitejs/plugin-react'
import { defineConfig } from 'vitest/config'

// `npm run dev` serves the console from memory and asks a pool that listens here.
const pool = process.env.GPUPOOL_CONSOLE_POOL ?? 'http://127.0.0.1:8750'

export default defineConfig({
  plugins: [react()],
  base: '/',
  build: {
    outDir: 'gpupool_console/static',
    emptyOutDir: true,
    // The content security policy has no `data:` for fonts and scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 900,
  },
  worker: { format: 'es' },
  // Unit tests share no state but i18next's language.
  test: { isolate: false },
  server: { proxy: { '/api': pool, '/login': pool, '/logout': pool } },
})
