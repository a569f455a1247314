// attention.tma_sm90: which pieces of work a cluster does, in order. One warp runs it, all lanes alike.
//
// Tiles are numbered longest first within a section of head groups whose K and V fit L2 together. With G groups in a
// section and T row tiles, number r of the section is row tile T - 1 - r / G of group r % G.
//   static     cluster c takes c, 2C - 1 - c, 2C + c, ... (a snake: long tiles are paired with short ones)
//   dynamic    clusters draw the next number from a counter; rank 0 of a cluster draws one tile ahead and mails it on
//   stream-K   whole waves as static; the R < C tiles that remain are cut so that all C clusters do an equal share
//
// The cut. Tile i belongs to cluster i, which does its first `share` blocks (from the diagonal on). What is left of the
// tiles forms one line, and what is left of the clusters' shares another; both are laid against each other (each rest
// begins with kCutCost empty blocks, the time that a partial costs beside its blocks):
//
//   rests       | tile 0      | tile 1      | tile 2      |        (blocks walked last)
//   capacities  | cluster 3          | cluster 4          |
//   partials      slot 0        1      2      3
//
// Each segment that the two cuts leave is one partial, in slot (tiles before + pieces before); the owner adds its
// tile's partials in that order, so results do not depend on timing. All owners walk the same keys at the same time and
// the rests are one common range of keys, which is what keeps a KV larger than L2 from being streamed by every cluster
// separately.
#pragma once

#include "templates/attention/segments.cuh"
#include "templates/attention/tma_sm90_shared.cuh"
#include "templates/common/warp_control.cuh"

namespace tilewright {

// Blocks that could be done in the time that it takes to change to a rest, to write its partial and to add it. A tile
// whose rest would not be longer is not cut.
constexpr U32 kCutCost = 3;

// Key blocks that a row tile visits: at least one, so that rows without keys take the same path (all masked, output
// zero).
__device__ __forceinline__ int blocksOf(const Params& p, int kvLen, int tile) {
  int visible = kvLen;
  if constexpr (kCausal) visible -= p.qLen - min((tile + 1) * kRowsPerHead, p.qLen);
  return max(1, (visible + kTileN - 1) / kTileN);
}

class Scheduler {
 public:
  __device__ Scheduler(const Params& p, Shared& shared)
      : p_(p),
        shared_(shared),
        cluster_(blockIdx.x / kCluster),
        clusters_(gridDim.x / kCluster),
        rank_(kCluster > 1 ? clusterRank() : 0),
        groupsPerBatch_(p.qHeads / kGroupHeads),
        groups_(p.batch * groupsPerBatch_),
        tiles_(groups_ * p.rowTiles) {
    if constexpr (kSchedule == kStreamK) cutRemainder();
  }

  // The next piece of work; its `tile` is negative when there is none.
  __device__ Work next() {
    if constexpr (kSchedule == kDynamic) {
      const int number = drawnNumber();
      const Work work = tileAt(number);
      if (work.tile >= 0 && rank_ == 0 && threadIdx.x == 0) ticket_ = atomicAdd(p_.control, 1);
      return work;
    }
    const int number = turn_ * clusters_ + (turn_ % 2 == 0 ? cluster_ : clusters_ - 1 - cluster_);
    if constexpr (kSchedule == kStatic) {
      ++turn_;
      return tileAt(number);
    } else {
      if (turn_ < wholeTurns_) {
        ++turn_;
        return tileAt(number);
      }
      return nextPiece();
    }
  }

 private:
  __device__ Work tileAt(int number) const {
    Work work{};
    work.tile = -1;
    if (number >= tiles_) return work;
    const int perSection = p_.sectionGroups * p_.rowTiles;
    const int section = number / perSection, inSection = number % perSection;
    const int groups = min(p_.sectionGroups, groups_ - section * p_.sectionGroups);
    work.tile = p_.rowTiles - 1 - inSection / groups;
    work.group = section * p_.sectionGroups + inSection % groups;
    work.kvLen = kvLenOf(p_.kvLen, p_.capacity, work.group / groupsPerBatch_);
    work.count = blocksOf(p_, work.kvLen, work.tile);
    work.first = work.count - 1;
    return work;
  }

  // Rank 0 asked for the number one tile ago, so the answer is there; the other rank waits for its mail.
  __device__ int drawnNumber() {
    if (turn_++ == 0) return cluster_;
    int number;
    const U32 full = sharedAddress(&shared_.mailFull[mail_.stage]), slot = sharedAddress(&shared_.mail[mail_.stage]);
    if (rank_ == 0) {
      number = __shfl_sync(kFullWarp, ticket_, 0) + clusters_;
      if (kCluster > 1 && threadIdx.x == 0) storeRemote(slot, number, full, 1);
    } else {
      barrierArriveExpectIf(threadIdx.x == 0, full, 4);
      barrierWait(full, mail_.phase);
      number = __shfl_sync(kFullWarp, shared_.mail[mail_.stage], 0);
    }
    mail_.advance<kMailSlots>();
    return number;
  }

  __device__ void cutRemainder() {
    wholeTurns_ = tiles_ / clusters_;
    firstCut_ = wholeTurns_ * clusters_;
    cutTiles_ = tiles_ - firstCut_;
    const auto never = [](int, U32) { return false; };
    const U32 blocks = findSegment(cutTiles_, [&](int i) { return blocksAt(i); }, never).begin;
    share_ = (blocks + kCutCost * cutTiles_ + clusters_ - 1) / clusters_;
    const U32 rests = findSegment(cutTiles_, [&](int i) { return restOf(i); }, never).begin;
    const Segment own =
        findSegment(clusters_, [&](int c) { return capacityOf(c); }, [&](int c, U32) { return c == cluster_; });
    piece_ = own.ordinal;
    at_ = min(own.begin, rests);
    end_ = min(own.begin + own.length, rests);
  }

  __device__ U32 blocksAt(int i) const { return tileAt(firstCut_ + i).count; }
  // Length of a tile's rest on the line; 0 for a tile that is not cut.
  __device__ U32 restOf(int i) const {
    const U32 blocks = blocksAt(i);
    return blocks > share_ + kCutCost ? blocks - share_ + kCutCost : 0;
  }
  __device__ U32 capacityOf(int c) const { return share_ - (c < cutTiles_ ? min(blocksAt(c), share_) : 0); }

  __device__ Work nextPiece() {
    Work work{};
    work.tile = -1;
    if (turn_ == wholeTurns_) {
      ++turn_;
      if (cluster_ < cutTiles_) return ownedTile();
    }
    while (at_ < end_) {
      // The part of a tile's rest that this cluster's piece covers.
      const Segment rest =
          findSegment(cutTiles_, [&](int i) { return restOf(i); }, [&](int, U32 end) { return end > at_; });
      const U32 begin = rest.begin + kCutCost, end = min(rest.begin + rest.length, end_);
      at_ = max(at_, begin);
      if (at_ >= end) {
        at_ = end;
        continue;
      }
      work = tileAt(firstCut_ + rest.index);
      work.first -= share_ + (at_ - begin);
      work.count = end - at_;
      work.peers = kPartial;
      work.slot = rest.ordinal + piece_;
      at_ = end;
      break;
    }
    return work;
  }

  __device__ Work ownedTile() const {
    Work work = tileAt(firstCut_ + cluster_);
    const Segment rest =
        findSegment(cutTiles_, [&](int i) { return restOf(i); }, [&](int i, U32) { return i == cluster_; });
    if (rest.length == 0) return work;
    const auto pieceAt = [&](U32 position) {
      return findSegment(
                 clusters_, [&](int c) { return capacityOf(c); }, [&](int, U32 end) { return end > position; })
          .ordinal;
    };
    const int firstPiece = pieceAt(rest.begin + kCutCost), lastPiece = pieceAt(rest.begin + rest.length - 1);
    work.count = share_;
    work.slot = rest.ordinal + firstPiece;
    work.peers = lastPiece - firstPiece + 1;
    return work;
  }

  const Params& p_;
  Shared& shared_;
  const int cluster_, clusters_;
  const U32 rank_;
  const int groupsPerBatch_, groups_, tiles_;
  int turn_ = 0;
  int ticket_ = 0;
  RingPosition mail_;
  int wholeTurns_ = 0, firstCut_ = 0, cutTiles_ = 0;
  U32 share_ = 0;         // blocks per cluster
  U32 at_ = 0, end_ = 0;  // this cluster's piece of the line of rests
  int piece_ = 0;
};

}  // namespace tilewright
