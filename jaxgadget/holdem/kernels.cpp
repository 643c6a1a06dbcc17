// Kernels of hold'em spots for CPUs, called by XLA; `kernels.py` compiles this file and describes the arrays.
//
// All hands of a block of sequences are adjacent. Reaches at terminal nodes are columns: hands are compared in
// one pass in the order of strength, with a running sum for each card, over the columns of a vector at once.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "xla/ffi/api/c_api.h"

namespace {

// Passes over hands are compiled once, not at every call.
#define KERNEL __attribute__((noinline))

constexpr int kDeck = 52;

#ifdef __AVX512F__
constexpr size_t kVectorBytes = 64;
#else
constexpr size_t kVectorBytes = 32;
#endif

// A vector of columns, and its length.
template <typename T>
struct Vector {
  static constexpr int64_t kSize = kVectorBytes / sizeof(T);
  typedef T V __attribute__((vector_size(kVectorBytes)));
};

// Exchanges the upper lanes of `a` with the lower lanes of `b`, in groups of `kStep` lanes.
template <size_t kStep, typename V, size_t... kLane>
inline void exchange(V& a, V& b, std::index_sequence<kLane...>) {
  constexpr size_t n = sizeof...(kLane);
#if defined(__clang__) || __GNUC__ >= 12
  const V first = __builtin_shufflevector(a, b, (kLane & kStep ? n + kLane - kStep : kLane)...);
  const V second = __builtin_shufflevector(a, b, (kLane & kStep ? n + kLane : kLane + kStep)...);
#else
  typedef std::conditional_t<sizeof(a[0]) == 4, int32_t, int64_t> Mask __attribute__((vector_size(sizeof(V))));
  const V first = __builtin_shuffle(a, b, Mask{(kLane & kStep ? n + kLane - kStep : kLane)...});
  const V second = __builtin_shuffle(a, b, Mask{(kLane & kStep ? n + kLane : kLane + kStep)...});
#endif
  a = first;
  b = second;
}

// Transposes a square matrix.
template <size_t kStep = 1, typename V, size_t kRows>
inline void transpose(V (&x)[kRows]) {
  if constexpr (kStep < kRows) {
#pragma GCC unroll 16
    for (size_t i = 0; i < kRows; ++i)
      if (!(i & kStep)) exchange<kStep>(x[i], x[i + kStep], std::make_index_sequence<kRows>());
    transpose<2 * kStep>(x);
  }
}

// A decision of a player with all hands. Arrays over its sequences are [blocks, H].
struct Decision {
  const int32_t* after;  // block after each action
  int64_t actions, above, hands;

  // The numbers of an action, of all hands.
  template <typename T>
  T* action(T* numbers, int64_t k) const {
    return numbers + after[k] * hands;
  }
  // The numbers of the block above.
  template <typename T>
  T* parent(T* numbers) const {
    return numbers + above * hands;
  }
};

// A player's decisions, top-down; each row has the block above, the number of actions, and the block after each.
struct Decisions {
  const int32_t* rows;
  int64_t count, stride, hands;

  Decision operator[](int64_t i) const {
    const int32_t* row = rows + i * stride;
    return {row + 2, row[1], row[0], hands};
  }
};

// Terminal nodes: the blocks of the player and of the other, and the factors of showdowns and of pairs of hands
// without a common card.
template <typename T>
struct Ends {
  const int32_t* blocks;
  const T* factors;
  int64_t count;
};

// The hands on a board.
struct Board {
  const int32_t* cards;  // [H, 2]
  const int16_t* group;  // [H], ascending in strength
  const uint8_t* held;   // [H]
};

// Working memory of a thread.
template <typename T>
struct Workspace {
  using V = typename Vector<T>::V;
  static constexpr int64_t kSize = Vector<T>::kSize;

  explicit Workspace(int64_t hands)
      : hands(hands), reach(hands), won(hands), apart(hands), order(hands), a(hands), b(hands), c(hands) {}

  int64_t hands;
  std::vector<V> reach, won, apart;
  std::vector<int32_t> order, first;  // possible hands by strength, and the first of each group
  std::vector<T> a, b, c;             // [H] for passes over decisions

  // Sorts the possible hands of a board by strength.
  KERNEL void sort(const Board& board) {
    int32_t groups = 0;
    for (int64_t h = 0; h < hands; ++h)
      if (board.held[h]) groups = std::max(groups, board.group[h] + 1);
    first.assign(groups + 1, 0);
    for (int64_t h = 0; h < hands; ++h)
      if (board.held[h]) ++first[board.group[h] + 1];
    for (int32_t g = 0; g < groups; ++g) first[g + 1] += first[g];
    next.assign(first.begin(), first.end() - 1);
    for (int64_t h = 0; h < hands; ++h)
      if (board.held[h])
        order[next[board.group[h]]++] = static_cast<int32_t>(h);
      else
        won[h] = apart[h] = V{};
  }

  // Adds to `gradient` [blocks of the player, H] the payoffs against `other` [blocks of the other, H].
  KERNEL void pay(const Board& board, const Ends<T>& ends, const T* other, const T* scale, T* gradient) {
    find_columns(ends);
    const int64_t total = static_cast<int64_t>(column.size());
    for (int64_t begin = 0; begin < total; begin += kSize) {
      const int64_t end = std::min(total, begin + kSize);
      gather(board, other, scale, begin, end);
      compare(board);
      scatter(ends, begin, gradient);
    }
  }

 private:
  std::vector<int32_t> next, of_block, column_of, column, shown, folded;
  V all, by_card[kDeck];

  // Lists the other's blocks that lead to terminal nodes.
  void find_columns(const Ends<T>& ends) {
    int32_t largest = 0;
    for (int64_t e = 0; e < ends.count; ++e) largest = std::max(largest, ends.blocks[2 * e + 1]);
    of_block.assign(largest + 1, -1);
    column.clear();
    column_of.resize(ends.count);
    for (int64_t e = 0; e < ends.count; ++e) {
      int32_t& own = of_block[ends.blocks[2 * e + 1]];
      if (own < 0) {
        own = static_cast<int32_t>(column.size());
        column.push_back(ends.blocks[2 * e + 1]);
      }
      column_of[e] = own;
    }
  }

  // Collects the reaches of some columns, hand by hand, and their sums: over all hands, and for each card.
  void gather(const Board& board, const T* other, const T* scale, int64_t begin, int64_t end) {
    all = V{};
    std::fill(by_card, by_card + kDeck, V{});
    for (int64_t block = 0; block < hands; block += kSize) {
      const int64_t count = std::min(hands - block, kSize);
      V rows[kSize];
      for (int64_t c = end - begin; c < kSize; ++c) rows[c] = V{};
      for (int64_t c = begin; c < end; ++c)
        if (count == kSize)
          std::memcpy(&rows[c - begin], other + column[c] * hands + block, sizeof(V));
        else
          for (int64_t i = 0; i < count; ++i) rows[c - begin][i] = other[column[c] * hands + block + i];
      transpose(rows);
      V sum = {};  // of the block first: a thousand additions to one sum would round too often
      for (int64_t i = 0; i < count; ++i) {
        const int64_t h = block + i;
        const V x = scale == nullptr ? rows[i] : rows[i] * scale[h];
        reach[h] = x;
        if (!board.held[h]) continue;
        sum += x;
        by_card[board.cards[2 * h]] += x;
        by_card[board.cards[2 * h + 1]] += x;
      }
      all += sum;
    }
  }

  // Payoffs of every hand: twice that of showdowns, and that of pairs without a common card.
  void compare(const Board& board) {
    const V everything = all;
    V of_card[kDeck];
    std::copy(by_card, by_card + kDeck, of_card);
    // Twice the sum over weaker and equal hands, minus the sum over all.
    V below = -all;
    for (V& x : by_card) x = -x;
    for (size_t g = 0; g + 1 < first.size(); ++g) {
      for (int32_t i = first[g]; i < first[g + 1]; ++i) {
        const int32_t h = order[i], a = board.cards[2 * h], b = board.cards[2 * h + 1];
        won[h] = below - by_card[a] - by_card[b];
        apart[h] = everything - of_card[a] - of_card[b] + reach[h];
      }
      V sum = {};
      for (int32_t i = first[g]; i < first[g + 1]; ++i) {
        const int32_t h = order[i];
        const V twice = reach[h] + reach[h];
        sum += twice;
        by_card[board.cards[2 * h]] += twice;
        by_card[board.cards[2 * h + 1]] += twice;
      }
      below += sum;
      for (int32_t i = first[g]; i < first[g + 1]; ++i) {
        const int32_t h = order[i];
        won[h] += below - by_card[board.cards[2 * h]] - by_card[board.cards[2 * h + 1]];
      }
    }
  }

  // Adds the payoffs of some columns to the blocks that lead to their terminal nodes.
  void scatter(const Ends<T>& ends, int64_t begin, T* gradient) {
    shown.clear();
    folded.clear();
    for (int32_t e = 0; e < ends.count; ++e) {
      if (column_of[e] < begin || column_of[e] >= begin + kSize) continue;
      if (ends.factors[2 * e] != 0) shown.push_back(e);
      if (ends.factors[2 * e + 1] != 0) folded.push_back(e);
    }
    for (int64_t block = 0; block < hands; block += kSize) {
      add_rows(ends, shown, 0, T(.5), won.data(), begin, block, gradient);
      add_rows(ends, folded, 1, T(1), apart.data(), begin, block, gradient);
    }
  }

  KERNEL void add_rows(const Ends<T>& ends, const std::vector<int32_t>& which, int kind, T unit, const V* from,
                int64_t begin, int64_t block, T* gradient) {
    if (which.empty()) return;
    const int64_t count = std::min(hands - block, kSize);
    V rows[kSize];
    for (int64_t i = 0; i < kSize; ++i) rows[i] = from[block + std::min(i, count - 1)];
    transpose(rows);
    for (const int32_t e : which) {
      T* own = gradient + ends.blocks[2 * e] * hands + block;
      const V earned = rows[column_of[e] - begin] * (unit * ends.factors[2 * e + kind]);
      if (count == kSize) {
        V sum;
        std::memcpy(&sum, own, sizeof(V));
        sum += earned;
        std::memcpy(own, &sum, sizeof(V));
      } else {
        for (int64_t i = 0; i < count; ++i) own[i] += earned[i];
      }
    }
  }
};

// Passes over a decision follow. Arrays without roots are given by pointers to where the roots would be.

// Discounts of positive and negative regrets.
template <typename T>
struct Discounts {
  T positive, negative;
};

// Sums over the actions of a decision.
template <typename T>
KERNEL void add_up(const Decision& at, const T* numbers, T* total) {
  std::fill(total, total + at.hands, T(0));
  for (int64_t k = 0; k < at.actions; ++k) {
    const T* x = at.action(numbers, k);
    for (int64_t h = 0; h < at.hands; ++h) total[h] += x[h];
  }
}

// Mixes floors into probabilities; `free` is working memory.
template <typename T>
KERNEL void mix_floors(const Decision& at, const T* floors, T* strategy, T* free) {
  add_up(at, floors, free);
  for (int64_t k = 0; k < at.actions; ++k) {
    const T* f = at.action(floors, k);
    T* s = at.action(strategy, k);
    for (int64_t h = 0; h < at.hands; ++h) s[h] = std::max(1 - free[h], T(0)) * s[h] + f[h];
  }
}

// Regrets that count as 0: of each hand, or one number for all.
template <typename T>
struct Tolerance {
  const T* numbers;
  bool is_shared;

  Tolerance of_decision(int64_t i, int64_t hands) const {
    return {is_shared ? numbers : numbers + i * hands, is_shared};
  }
};

// Regret matching.
template <typename T>
KERNEL void match(const Decision& at, const T* regrets, Tolerance<T> tolerance, const T* floors, T* strategy,
                  T* sum) {
  std::fill(sum, sum + at.hands, T(0));
  for (int64_t k = 0; k < at.actions; ++k) {
    const T* r = at.action(regrets, k);
    for (int64_t h = 0; h < at.hands; ++h) sum[h] += std::max(r[h], T(0));
  }
  const T* least = tolerance.numbers;
  if (tolerance.is_shared)
    for (int64_t h = 0; h < at.hands; ++h) sum[h] = sum[h] > least[0] ? 1 / sum[h] : T(0);
  else
    for (int64_t h = 0; h < at.hands; ++h) sum[h] = sum[h] > least[h] ? 1 / sum[h] : T(0);
  const T uniform = T(1) / static_cast<T>(at.actions);
  for (int64_t k = 0; k < at.actions; ++k) {
    const T* r = at.action(regrets, k);
    T* s = at.action(strategy, k);
    for (int64_t h = 0; h < at.hands; ++h) s[h] = sum[h] > 0 ? std::max(r[h], T(0)) * sum[h] : uniform;
  }
  if (floors != nullptr) mix_floors(at, floors, strategy, sum);
}

// The player's reach of every block below the roots.
template <typename T>
KERNEL void follow(const Decisions& decisions, const T* strategy, T* plan) {
  for (int64_t i = 0; i < decisions.count; ++i) {
    const Decision at = decisions[i];
    const T* above = at.parent(plan);
    for (int64_t k = 0; k < at.actions; ++k) {
      const T* s = at.action(strategy, k);
      T* own = at.action(plan, k);
      for (int64_t h = 0; h < at.hands; ++h) own[h] = above[h] * s[h];
    }
  }
}

// Adds the values of a decision to the block above.
template <typename T>
void add_to_parent(const Decision& at, const T* value, T* gradient) {
  T* above = at.parent(gradient);
  for (int64_t h = 0; h < at.hands; ++h) above[h] += value[h];
}

// Values under a strategy, from those of the actions; they are added to the block above.
template <typename T>
KERNEL void add_value(const Decision& at, const T* strategy, T* gradient, T* value) {
  std::fill(value, value + at.hands, T(0));
  for (int64_t k = 0; k < at.actions; ++k) {
    const T *q = at.action(gradient, k), *s = at.action(strategy, k);
    for (int64_t h = 0; h < at.hands; ++h) value[h] += s[h] * q[h];
  }
  add_to_parent(at, value, gradient);
}

// Values under a best response within the floors, as above; `free` is working memory.
template <typename T>
KERNEL void add_best(const Decision& at, const T* floors, T* gradient, T* value, T* free) {
  std::copy(at.action(gradient, 0), at.action(gradient, 0) + at.hands, value);
  for (int64_t k = 1; k < at.actions; ++k) {
    const T* q = at.action(gradient, k);
    for (int64_t h = 0; h < at.hands; ++h) value[h] = std::max(value[h], q[h]);
  }
  if (floors != nullptr) {
    add_up(at, floors, free);
    for (int64_t h = 0; h < at.hands; ++h) value[h] *= 1 - free[h];
    for (int64_t k = 0; k < at.actions; ++k) {
      const T *f = at.action(floors, k), *q = at.action(gradient, k);
      for (int64_t h = 0; h < at.hands; ++h) value[h] += f[h] * q[h];
    }
  }
  add_to_parent(at, value, gradient);
}

// Adds the regrets of an iteration; `shared` and `free` are working memory.
template <typename T>
KERNEL void learn(const Decision& at, const T* gradient, const T* value, const T* floors, Discounts<T> discounts,
                  T* regrets, T* shared, T* free) {
  if (floors != nullptr) {  // regrets are mapped back by the transpose of mixing floors in
    add_up(at, floors, free);
    std::fill(shared, shared + at.hands, T(0));
    for (int64_t k = 0; k < at.actions; ++k) {
      const T *f = at.action(floors, k), *q = at.action(gradient, k);
      for (int64_t h = 0; h < at.hands; ++h) shared[h] += f[h] * (q[h] - value[h]);
    }
  }
  for (int64_t k = 0; k < at.actions; ++k) {
    const T* q = at.action(gradient, k);
    T* r = at.action(regrets, k);
    const auto add = [&](int64_t h, T regret) {
      const T total = r[h] + regret;
      r[h] = total * (total > 0 ? discounts.positive : discounts.negative);
    };
    if (floors == nullptr)
      for (int64_t h = 0; h < at.hands; ++h) add(h, q[h] - value[h]);
    else
      for (int64_t h = 0; h < at.hands; ++h) add(h, (1 - free[h]) * (q[h] - value[h]) + shared[h]);
  }
}

// Weights in the place of `strategy` become probabilities; with floors, only the excess over them is scaled.
// `sum` and `free` are working memory.
template <typename T>
KERNEL void normalise(const Decision& at, const T* floors, T* strategy, T* sum, T* free) {
  const T uniform = T(1) / static_cast<T>(at.actions);
  add_up(at, static_cast<const T*>(strategy), sum);
  if (floors == nullptr) {
    for (int64_t k = 0; k < at.actions; ++k) {
      T* s = at.action(strategy, k);
      for (int64_t h = 0; h < at.hands; ++h) s[h] = sum[h] > 0 ? s[h] / sum[h] : uniform;
    }
    return;
  }
  add_up(at, floors, free);
  for (int64_t k = 0; k < at.actions; ++k) {
    const T* f = at.action(floors, k);
    T* s = at.action(strategy, k);
    for (int64_t h = 0; h < at.hands; ++h)
      s[h] = std::max(sum[h] > 0 ? s[h] / sum[h] - f[h] : (1 - free[h]) * uniform, T(0));
  }
  add_up(at, static_cast<const T*>(strategy), sum);
  for (int64_t k = 0; k < at.actions; ++k) {
    T* s = at.action(strategy, k);
    for (int64_t h = 0; h < at.hands; ++h) s[h] = sum[h] > 0 ? s[h] / sum[h] : T(0);
  }
  mix_floors(at, floors, strategy, free);
}

// An array of XLA.
struct Buffer {
  const XLA_FFI_Buffer* xla;

  int64_t dimension(int64_t axis) const { return xla->dims[axis]; }
  int64_t count() const {
    int64_t product = 1;
    for (int64_t axis = 0; axis < xla->rank; ++axis) product *= xla->dims[axis];
    return product;
  }
  bool is_float() const { return xla->dtype == XLA_FFI_DataType_F32; }
  bool is_compressed() const { return xla->dtype == XLA_FFI_DataType_S16; }

  template <typename T>
  T* data() const {
    return static_cast<T*>(xla->data);
  }
};

// A call by XLA.
struct Call {
  XLA_FFI_CallFrame* frame;

  Buffer operand(size_t i) const { return {static_cast<XLA_FFI_Buffer*>(frame->args.args[i])}; }
  Buffer result(size_t i) const { return {static_cast<XLA_FFI_Buffer*>(frame->rets.rets[i])}; }

  template <typename T>
  T* data(size_t i) const {
    return operand(i).data<T>();
  }

  // A result in place of an operand; XLA usually gives both one buffer.
  Buffer updated(size_t i, size_t j, size_t item_size) const {
    const Buffer before = operand(i), after = result(j);
    if (before.data<char>() != after.data<char>())
      std::memcpy(after.data<char>(), before.data<char>(), before.count() * item_size);
    return after;
  }

  int64_t num_threads() const {
    int64_t number = 1;
    XLA_FFI_ThreadPool_NumThreads_Args arguments = {XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE, nullptr,
                                                    frame->ctx, &number};
    return succeeds(frame->api->XLA_FFI_ThreadPool_NumThreads(&arguments)) ? number : 1;
  }

  // Has XLA's threads call `task(data)` later; false if it cannot.
  bool schedule(XLA_FFI_Task* task, void* data) const {
    XLA_FFI_ThreadPool_Schedule_Args arguments = {XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE, nullptr, frame->ctx,
                                                  task, data};
    return succeeds(frame->api->XLA_FFI_ThreadPool_Schedule(&arguments));
  }

 private:
  bool succeeds(XLA_FFI_Error* error) const {
    if (error == nullptr) return true;
    XLA_FFI_Error_Destroy_Args arguments = {XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, nullptr, error};
    frame->api->XLA_FFI_Error_Destroy(&arguments);
    return false;
  }
};

// Working memory of a thread during a call.
template <typename T>
struct Memory {
  Workspace<T> work;
  std::vector<T> numbers;

  explicit Memory(int64_t hands) : work(hands) {}

  T* scratch(int64_t size) {
    if (static_cast<int64_t>(numbers.size()) < size) numbers.resize(size);
    return numbers.data();
  }
};

// Tasks that XLA's threads and the calling thread share.
//
// The calling thread does not wait for threads that have not begun, so that it cannot be blocked.
struct Tasks {
  std::function<void()> work;
  std::atomic<int64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::condition_variable ended;
  int64_t working = 0;
  bool closed = false;

  void run() noexcept {
    try {
      work();
    } catch (...) {  // such as a lack of memory
      failed = true;
    }
  }

  static void help(void* data) {
    std::unique_ptr<std::shared_ptr<Tasks>> own(static_cast<std::shared_ptr<Tasks>*>(data));
    Tasks& tasks = **own;
    {
      std::lock_guard<std::mutex> lock(tasks.mutex);
      if (tasks.closed) return;
      ++tasks.working;
    }
    tasks.run();
    std::lock_guard<std::mutex> lock(tasks.mutex);
    --tasks.working;
    tasks.ended.notify_all();
  }
};

// Runs `task(memory, i)` for 0 ≤ i < count.
template <typename T, typename Task>
void run_all(const Call& call, int64_t count, int64_t hands, const Task& task) {
  auto tasks = std::make_shared<Tasks>();
  tasks->work = [&task, count, hands, shared = tasks.get()] {
    Memory<T> memory(hands);
    for (int64_t i; !shared->failed && (i = shared->next++) < count;) task(memory, i);
  };
  for (int64_t helpers = std::min(call.num_threads(), count) - 1; helpers > 0; --helpers) {
    auto* own = new std::shared_ptr<Tasks>(tasks);
    if (!call.schedule(Tasks::help, own)) delete own;
  }
  tasks->run();
  std::unique_lock<std::mutex> lock(tasks->mutex);
  tasks->closed = true;
  tasks->ended.wait(lock, [&] { return tasks->working == 0; });
  if (tasks->failed) throw std::bad_alloc();
}

// Operands that describe one player's game: decisions, distinct floors [F, Q], their row in each slice, terminal
// nodes and factors.
template <typename T>
struct Player {
  static constexpr size_t kOperands = 5;

  Decisions decisions;
  Ends<T> ends;

  Player(const Call& call, size_t first, int64_t hands, int64_t root_size)
      : decisions{call.data<int32_t>(first), call.operand(first).dimension(0), call.operand(first).dimension(1),
                  hands},
        ends{call.data<int32_t>(first + 3), call.data<T>(first + 4), call.operand(first + 3).dimension(0)},
        all_floors(call.data<T>(first + 1)),
        row(call.operand(first + 1).count() == 0 ? nullptr : call.data<int32_t>(first + 2)),
        size(call.operand(first + 1).dimension(1)),
        root_size(root_size) {}

  // The floors in a slice; null for none.
  const T* floors(int64_t slice) const {
    return row == nullptr || row[slice] < 0 ? nullptr : all_floors + row[slice] * size - root_size;
  }

 private:
  const T* all_floors;
  const int32_t* row;
  int64_t size, root_size;
};

// Iterations of a game; see `iterate` in `kernels.py`.
template <typename T>
void iterate(const Call& call) {
  const Board board = {call.data<int32_t>(0), call.data<int16_t>(1),
                       call.data<uint8_t>(2)};
  const int64_t hands = call.operand(0).dimension(0);
  const int32_t* iterations = call.data<int32_t>(3);
  const T* rule = call.data<T>(4);
  const T* scale[2] = {call.data<T>(5), call.data<T>(6)};
  const Tolerance<T> tolerance[2] = {{call.data<T>(7), false}, {call.data<T>(8), false}};
  const Player<T> players[2] = {{call, 9, hands, hands}, {call, 9 + Player<T>::kOperands, hands, hands}};
  constexpr size_t kState = 9 + 2 * Player<T>::kOperands;
  T* state[4][2];  // regrets, strategies, plans and sums of plans
  for (size_t i = 0; i < 8; ++i) state[i / 2][i % 2] = call.updated(kState + i, i, sizeof(T)).data<T>();
  const int64_t size[2] = {call.result(4).count(), call.result(5).count()};
  Workspace<T> work(hands);
  work.sort(board);
  std::vector<T> gradient(std::max(size[0], size[1]));
  for (int64_t t = int64_t{iterations[0]} + 1; t <= iterations[1]; ++t) {
    const double number = static_cast<double>(t);
    const T weight = static_cast<T>(std::pow(number, static_cast<double>(rule[3]))) * rule[4];
    const auto discount = [&](T exponent) {
      const double power = std::pow(number, static_cast<double>(exponent));
      return static_cast<T>(std::isinf(exponent) ? 1 : power / (power + 1));
    };
    const Discounts<T> discounts = {discount(rule[1]), rule[0] != 0 ? T(0) : discount(rule[2])};
    for (int p = 0; p < 2; ++p) {
      const Decisions& own = players[p].decisions;
      const T* floors = players[p].floors(0);
      T *regrets = state[0][p] - hands, *strategy = state[1][p] - hands;
      T *plan = state[2][p], *sums = state[3][p];
      for (int64_t i = 0; i < size[p]; ++i) sums[i] += weight * plan[i];
      std::fill(gradient.begin(), gradient.begin() + size[p], T(0));
      work.pay(board, players[p].ends, state[2][1 - p], scale[1 - p], gradient.data());
      for (int64_t i = own.count - 1; i >= 0; --i) {
        const Decision at = own[i];
        add_value(at, strategy, gradient.data(), work.a.data());
        learn(at, gradient.data(), work.a.data(), floors, discounts, regrets, work.b.data(), work.c.data());
        match(at, regrets, tolerance[p].of_decision(i, hands), floors, strategy, work.a.data());
      }
      follow(own, strategy, plan);
    }
  }
}

// Numbers [blocks, H] of slices: as they are, or in 16 bits with a factor for each block.
struct Stored {
  Buffer numbers, scale;  // both the same without factors
  int64_t size;           // of a slice

  // The numbers of a slice: in place if they have the type T, otherwise a copy in `scratch`.
  template <typename T>
  T* read(int64_t slice, int64_t hands, T* scratch) const {
    const int64_t first = slice * size;
    if (!numbers.is_compressed() && numbers.is_float() == std::is_same_v<T, float>) return numbers.data<T>() + first;
    if (!numbers.is_compressed()) {
      convert(numbers.data<float>() + first, size, T(1), scratch);
      return scratch;
    }
    for (int64_t i = first; i < first + size; i += hands) {
      const T factor = scale.is_float() ? static_cast<T>(scale.data<float>()[i / hands])
                                       : static_cast<T>(scale.data<double>()[i / hands]);
      convert(numbers.data<int16_t>() + i, hands, factor, scratch + (i - first));
    }
    return scratch;
  }

  // Stores a slice's numbers in 16 bits; `rounding` [H] is added before they are rounded down.
  template <typename T>
  KERNEL void write(int64_t slice, int64_t hands, const T* from, const T* rounding) const {
    constexpr T kMost = 32767;
    for (int64_t i = 0; i < size; i += hands) {
      T most = 0;
      for (int64_t h = 0; h < hands; ++h) most = std::max(most, std::abs(from[i + h]));
      const T factor = most / kMost, inverse = factor > 0 ? 1 / factor : T(1);
      scale.data<T>()[(slice * size + i) / hands] = factor;
      int16_t* to = numbers.data<int16_t>() + slice * size + i;
      for (int64_t h = 0; h < hands; ++h) {
        const T rounded = std::floor(from[i + h] * inverse + rounding[h]);
        to[h] = static_cast<int16_t>(std::min(std::max(rounded, -kMost), kMost));
      }
    }
  }

 private:
  template <typename S, typename T>
  KERNEL static void convert(const S* from, int64_t count, T factor, T* to) {
    for (int64_t i = 0; i < count; ++i) to[i] = factor * static_cast<T>(from[i]);
  }
};

// Operands of games below chance events that do not belong to a player.
template <typename T>
struct Slices {
  const int32_t* cards;
  const int16_t* group;
  const uint8_t* held;
  const int32_t* bounds;
  const int32_t* above;
  const T* chance;
  const int32_t* image;
  const int32_t* images;
  const T* roots[2];
  int64_t hands, events, outcomes;

  explicit Slices(const Call& call)
      : cards(call.data<int32_t>(0)),
        group(call.data<int16_t>(1)),
        held(call.data<uint8_t>(2)),
        bounds(call.data<int32_t>(3)),
        above(call.data<int32_t>(4)),
        chance(call.data<T>(5)),
        image(call.data<int32_t>(6)),
        images(call.data<int32_t>(7)),
        roots{call.data<T>(8), call.data<T>(9)},
        hands(call.operand(0).dimension(0)),
        events(call.operand(8).dimension(1)),
        outcomes(call.operand(5).dimension(2)) {}

  int64_t count() const { return bounds[1] - bounds[0]; }
  int64_t root_size() const { return events * hands; }

  Board board(int64_t slice) const { return {cards, group + slice * hands, held + slice * hands}; }

  // Reach [K, H] of a slice's roots by one of the players.
  void enter(int player, int64_t slice, T* plan) const {
    const uint8_t* is_held = held + slice * hands;
    const T* from = roots[player] + above[slice] * events * hands;
    for (int64_t k = 0; k < events; ++k)
      for (int64_t h = 0; h < hands; ++h) plan[k * hands + h] = is_held[h] ? from[k * hands + h] : T(0);
  }

  // Values [lanes above, K, H] of chance events: sums over all outcomes of the values [count, K, H] of slices.
  void sum_outcomes(const std::vector<T>& values, const Buffer& result) const {
    T* sum = result.data<T>();
    std::fill(sum, sum + result.count(), T(0));
    for (int64_t i = 0; i < count(); ++i) {
      const int64_t slice = bounds[0] + i;
      for (int64_t m = 0; m < outcomes; ++m) {
        const T probability = chance[slice * outcomes + m];
        const int32_t* of_hand = images + image[slice * outcomes + m] * hands;
        if (probability == 0) continue;
        for (int64_t k = 0; k < events; ++k) {
          const T* from = values.data() + (i * events + k) * hands;
          T* to = sum + (above[slice] * events + k) * hands;
          for (int64_t h = 0; h < hands; ++h) to[h] += probability * from[of_hand[h]];
        }
      }
    }
  }
};

// The payoff gradient of a player in all lanes; see `pay` in `kernels.py`.
template <typename T>
void pay(const Call& call) {
  const int32_t* blocks = call.data<int32_t>(0);
  const T *factors = call.data<T>(1), *reach = call.data<T>(5);
  const int64_t count = call.operand(0).dimension(0), lanes = call.operand(1).dimension(0);
  const int64_t hands = call.operand(2).dimension(1), boards = call.operand(2).dimension(0);
  const int64_t other_size = call.operand(5).dimension(0), size = call.result(0).dimension(0);
  T* gradient = call.result(0).data<T>();
  run_all<T>(call, lanes, hands, [&](Memory<T>& memory, int64_t lane) {
    Workspace<T>& work = memory.work;
    const int64_t at = boards == 1 ? 0 : lane * hands;
    const Board board = {call.data<int32_t>(2) + 2 * at, call.data<int16_t>(3) + at, call.data<uint8_t>(4) + at};
    work.sort(board);
    T* other = memory.scratch(other_size + size);
    T* own = other + other_size;
    for (int64_t i = 0; i < other_size; ++i) other[i] = reach[i * lanes + lane];
    std::fill(own, own + size, T(0));
    work.pay(board, {blocks, factors + lane * count * 2, count}, other, static_cast<const T*>(nullptr), own);
    for (int64_t i = 0; i < size; ++i) gradient[i * lanes + lane] = own[i];
  });
}

// Updates a player's strategies below chance events; see `update` in `kernels.py`.
template <typename T>
void update(const Call& call) {
  const Slices<T> slices(call);
  const int64_t hands = slices.hands, roots = slices.root_size();
  const Player<T> own(call, 10, hands, roots), other(call, 10 + Player<T>::kOperands, hands, roots);
  constexpr size_t kNumbers = 10 + 2 * Player<T>::kOperands;
  const T* numbers = call.data<T>(kNumbers);
  const int64_t num_slices = call.operand(kNumbers + 2).dimension(0);
  const bool is_compressed = call.operand(kNumbers + 2).is_compressed();
  const size_t parts = is_compressed ? 2 : 1;
  const auto size_of = [&](size_t i) {
    return call.operand(kNumbers + 2 + i * parts).count() / num_slices;
  };
  for (size_t i = 0; i < 2 * parts; ++i)
    call.updated(kNumbers + 2 + i, 1 + i, is_compressed && i % 2 == 0 ? sizeof(int16_t) : sizeof(T));
  const Stored regrets = {call.result(1), call.result(parts), size_of(0)};
  const Stored sums = {call.result(1 + parts), call.result(2 * parts), size_of(1)};
  const size_t last = kNumbers + 2 + 2 * parts;
  const Stored against = {call.operand(last), call.operand(last + parts - 1), size_of(2)};
  const T weight = numbers[0];
  const Discounts<T> discounts = {numbers[1], numbers[2]};
  const Tolerance<T> own_tolerance = {numbers + 3, true}, other_tolerance = {numbers + 4, true};
  const T* rounding = call.data<T>(kNumbers + 1);  // [H] added before numbers are rounded down to 16 bits
  std::vector<T> values(slices.count() * roots);
  run_all<T>(call, slices.count(), hands, [&](Memory<T>& memory, int64_t i) {
    const int64_t slice = slices.bounds[0] + i;
    Workspace<T>& work = memory.work;
    const Board board = slices.board(slice);
    const T *own_floors = own.floors(slice), *other_floors = other.floors(slice);
    work.sort(board);
    const int64_t own_all = roots + regrets.size, other_all = roots + against.size;
    T* own_plan = memory.scratch(5 * own_all + 3 * other_all);
    T *own_strategy = own_plan + own_all, *gradient = own_strategy + own_all;
    T *other_plan = gradient + 3 * own_all, *other_strategy = other_plan + other_all;
    T* own_regrets = regrets.read(slice, hands, gradient + own_all) - roots;
    T* own_sums = sums.read(slice, hands, gradient + 2 * own_all);
    const T* other_regrets = against.read(slice, hands, other_strategy + other_all) - roots;
    slices.enter(0, slice, own_plan);
    slices.enter(1, slice, other_plan);
    for (int64_t d = 0; d < own.decisions.count; ++d)
      match(own.decisions[d], own_regrets, own_tolerance, own_floors, own_strategy, work.a.data());
    for (int64_t d = 0; d < other.decisions.count; ++d)
      match(other.decisions[d], other_regrets, other_tolerance, other_floors, other_strategy, work.a.data());
    follow(own.decisions, own_strategy, own_plan);
    follow(other.decisions, other_strategy, other_plan);
    for (int64_t j = 0; j < sums.size; ++j) own_sums[j] += weight * own_plan[roots + j];
    std::fill(gradient, gradient + own_all, T(0));
    work.pay(board, own.ends, other_plan, static_cast<const T*>(nullptr), gradient);
    for (int64_t d = own.decisions.count - 1; d >= 0; --d) {
      const Decision at = own.decisions[d];
      add_value(at, own_strategy, gradient, work.a.data());
      learn(at, gradient, work.a.data(), own_floors, discounts, own_regrets, work.b.data(), work.c.data());
    }
    std::copy(gradient, gradient + roots, values.data() + i * roots);
    if (is_compressed) {
      regrets.write(slice, hands, own_regrets + roots, rounding);
      sums.write(slice, hands, own_sums, rounding);
    }
  });
  slices.sum_outcomes(values, call.result(0));
}

// Values of chance events against average strategies; see `values` in `kernels.py`.
template <typename T>
void evaluate(const Call& call) {
  const Slices<T> slices(call);
  const int64_t hands = slices.hands, roots = slices.root_size();
  const Player<T> own(call, 10, hands, roots), other(call, 10 + Player<T>::kOperands, hands, roots);
  constexpr size_t kSums = 10 + 2 * Player<T>::kOperands;
  const int64_t num_slices = call.operand(kSums).dimension(0);
  const size_t parts = call.operand(kSums).is_compressed() ? 2 : 1;
  const auto stored = [&](size_t first) -> Stored {
    return {call.operand(first), call.operand(first + parts - 1),
            call.operand(first).count() / num_slices};
  };
  const Stored own_sums = stored(kSums), other_sums = stored(kSums + parts);
  std::vector<T> best_values(slices.count() * roots), values(slices.count() * roots);
  run_all<T>(call, slices.count(), hands, [&](Memory<T>& memory, int64_t i) {
    const int64_t slice = slices.bounds[0] + i;
    Workspace<T>& work = memory.work;
    const Board board = slices.board(slice);
    const T *own_floors = own.floors(slice), *other_floors = other.floors(slice);
    work.sort(board);
    const int64_t own_all = roots + own_sums.size, other_all = roots + other_sums.size;
    T* own_strategy = memory.scratch(3 * own_all + 2 * other_all);
    T *gradient = own_strategy + own_all, *best = gradient + own_all;
    T *other_strategy = best + own_all, *other_plan = other_strategy + other_all;
    for (const auto& [sums, strategy] :
         {std::pair(&own_sums, own_strategy), std::pair(&other_sums, other_strategy)}) {
      const T* weights = sums->read(slice, hands, strategy + roots);
      if (weights != strategy + roots) std::copy(weights, weights + sums->size, strategy + roots);
    }
    for (int64_t d = 0; d < own.decisions.count; ++d)
      normalise(own.decisions[d], own_floors, own_strategy, work.a.data(), work.b.data());
    for (int64_t d = 0; d < other.decisions.count; ++d)
      normalise(other.decisions[d], other_floors, other_strategy, work.a.data(), work.b.data());
    slices.enter(1, slice, other_plan);
    follow(other.decisions, other_strategy, other_plan);
    std::fill(gradient, gradient + own_all, T(0));
    work.pay(board, own.ends, other_plan, static_cast<const T*>(nullptr), gradient);
    std::copy(gradient, gradient + own_all, best);
    for (int64_t d = own.decisions.count - 1; d >= 0; --d) {
      add_best(own.decisions[d], own_floors, best, work.a.data(), work.b.data());
      add_value(own.decisions[d], own_strategy, gradient, work.a.data());
    }
    std::copy(best, best + roots, best_values.data() + i * roots);
    std::copy(gradient, gradient + roots, values.data() + i * roots);
  });
  slices.sum_outcomes(best_values, call.result(0));
  slices.sum_outcomes(values, call.result(1));
}

// Tells the version of the interface, or runs a function in the precision of the first result.
XLA_FFI_Error* run(XLA_FFI_CallFrame* frame, void (*in_float)(const Call&), void (*in_double)(const Call&)) {
  const auto* extension = frame->extension_start;  // JAX 0.10 and 0.11 name its type differently
  if (extension != nullptr && extension->type == XLA_FFI_Extension_Metadata) {
    XLA_FFI_Metadata* metadata =
        reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    metadata->traits = 0;
    return nullptr;
  }
  const Call call = {frame};
  try {
    (call.result(0).is_float() ? in_float : in_double)(call);
    return nullptr;
  } catch (const std::exception& error) {
    XLA_FFI_Error_Create_Args arguments = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, nullptr, error.what(),
                                           XLA_FFI_Error_Code_RESOURCE_EXHAUSTED};
    return frame->api->XLA_FFI_Error_Create(&arguments);
  }
}

}  // namespace

extern "C" XLA_FFI_Error* jaxgadget_pay(XLA_FFI_CallFrame* frame) {
  return run(frame, pay<float>, pay<double>);
}
extern "C" XLA_FFI_Error* jaxgadget_iterate(XLA_FFI_CallFrame* frame) {
  return run(frame, iterate<float>, iterate<double>);
}
extern "C" XLA_FFI_Error* jaxgadget_update(XLA_FFI_CallFrame* frame) {
  return run(frame, update<float>, update<double>);
}
extern "C" XLA_FFI_Error* jaxgadget_evaluate(XLA_FFI_CallFrame* frame) {
  return run(frame, evaluate<float>, evaluate<double>);
}
