// The cache of the server's answers. An event of the pool marks what it touches as outdated.
import { QueryClient } from '@tanstack/react-query'
import { isRefused } from '../api/problem'

const SECOND = 1000

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5 * SECOND,
      // A refusal is an answer; only a server that cannot be reached is asked again.
      retry: (count, error) => count < 3 && !isRefused(error),
      refetchOnWindowFocus: false,
    },
    mutations: { retry: false },
  },
})
